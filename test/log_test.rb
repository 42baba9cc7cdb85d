# frozen_string_literal: true

require "test_helper"
require "gyre/log"

class LogTest < Minitest::Test
  def test_it_loads_without_the_web_server
    result = ruby("-e", 'require "gyre/log"; print defined?(Gyre::Log::Wire), defined?(Gyre::Web).inspect')
    assert_equal "constantnil", result.out
    assert_empty result.err
  end
end
