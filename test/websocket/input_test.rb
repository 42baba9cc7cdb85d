# frozen_string_literal: true

# A WebSocket's frames without socket and Ruby (ext/gyre/websocket/input.h), by a plain C program.

require "test_helper"
require "support/plain_c"

class WebSocketInputTest < Minitest::Test
  include GyreTest::PlainC::Assertions

  { "plain" => GyreTest::PlainC::PLAIN, "sanitized" => GyreTest::PlainC::SANITIZED }.each do |name, flags|
    define_method(:"test_#{name}") { assert_plain_c("websocket_input_test", flags) }
  end
end
