# frozen_string_literal: true

# HTTP/2's frames and streams without socket and Ruby (ext/gyre/http/h2/session.h), by a plain C
# program: a client and apps on a random walk. GYRE_SEED is the number of the first walk.

require "test_helper"
require "support/engines"
require "support/plain_c"
require "http/h2/serving"

class H2SessionTest < Minitest::Test
  include GyreTest::PlainC::Assertions

  def test_a_random_walk_with_sanitizers
    skip "this build has no HTTP/2" if GyreTest::H2Serving::BACKENDS.empty?
    assert_plain_c("http2_session_test", GyreTest::PlainC::SANITIZED, "300", ENV.fetch("GYRE_SEED", "1"), within_s: 100)
  end
end
