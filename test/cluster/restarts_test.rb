# frozen_string_literal: true

# No request is lost in two restarts of each kind; rake test:restarts does twenty, with wrk.

require "test_helper"
require_relative "restarting"

class ClusterRestartsTest < Minitest::Test
  include GyreTest::Serving
  include GyreTest::Restarting

  def test_no_request_is_lost_in_restarts_of_each_kind
    assert_no_request_is_lost(%w[rolling hot] * 2, quick: 4, slow: 10)
  end
end
