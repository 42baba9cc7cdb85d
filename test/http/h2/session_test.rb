# frozen_string_literal: true

# HTTP/2's frames and streams without socket and Ruby (ext/gyre/http/http2_session.h), by a plain C
# program: a client and apps on a random walk. GYRE_SEED is the number of the first walk.

require "test_helper"
require "support/engines"
require "support/plain_c"
require "tmpdir"
require "http/h2/serving"

class H2SessionTest < Minitest::Test
  def test_a_random_walk_with_sanitizers
    skip "this build has no HTTP/2" if GyreTest::H2Serving::BACKENDS.empty?
    Dir.mktmpdir("gyre-h2-") do |folder|
      program = GyreTest::PlainC.build("http2_session_test", folder, GyreTest::PlainC::SANITIZED) or skip "no C compiler that can do it"
      output = run_program({ "LD_PRELOAD" => nil }, program, "300", ENV.fetch("GYRE_SEED", "1"), within_s: 100)
      assert output.status.success?, "#{output.out}#{output.err}"
    end
  end
end
