# frozen_string_literal: true

# Twenty restarts of each kind under wrk and 200 slow requests at a time: rake test:restarts.

require "test_helper"
require_relative "restarting"

class WebClusterManyRestartsTest < Minitest::Test
  include GyreTest::Serving
  include GyreTest::Restarting

  TIMES = Integer(ENV.fetch("GYRE_RESTARTS", "20"))

  GyreTest::Restarting::KINDS.each_key do |kind|
    define_method(:"test_no_request_is_lost_in_many_#{kind}_restarts") do
      wrk = nil
      assert_no_request_is_lost([kind] * TIMES, quick: 2, slow: 200) do |program|
        command = [need_program("wrk"), "-t", "1", "-c", "32", "-d", "#{TIMES * 2}s", "http://127.0.0.1:#{program.port}/"]
        wrk = Thread.new { run_program(*command, within_s: 300).out }
      end
      refute_match(/Socket errors|Non-2xx/, wrk.value)
    end
  end
end
