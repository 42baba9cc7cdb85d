# frozen_string_literal: true

# Twenty restarts of each kind under wrk and 200 slow requests at a time: rake test:restarts.

require "test_helper"
require_relative "restarting"

class ClusterManyRestartsTest < Minitest::Test
  include GyreTest::Serving
  include GyreTest::Restarting

  TIMES = Integer(ENV.fetch("GYRE_RESTARTS", "20"))

  GyreTest::Restarting::KINDS.each_key do |kind|
    define_method(:"test_no_request_is_lost_in_many_#{kind}_restarts") do
      assert_no_request_is_lost([kind] * TIMES, quick: 2, slow: 200, wrk: need_program("wrk"))
    end
  end
end
