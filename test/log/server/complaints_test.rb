# frozen_string_literal: true

# Bounded log lines about clients: Gyre::Log::Complaints.

require "test_helper"
require "gyre/log/server/hub"

class LogComplaintsTest < Minitest::Test
  def test_a_second_has_a_limit_and_the_rest_is_counted
    reported = []
    complaints = Gyre::Log::Complaints.new(2) { |*words| reported << words }
    complaints.tick(100.0)
    5.times { |number| complaints.add("peer", number) }
    assert_equal [["warn", "peer: 0"], ["warn", "peer: 1"]], reported
    complaints.tick(100.5)
    complaints.add("peer", "too early")
    complaints.tick(101.0)
    complaints.add("peer", "again", "error")
    assert_equal [["warn", "4 more complaints about clients were left out"], ["error", "peer: again"]], reported.drop(2)
    complaints.tick(102.0)
    assert_equal 4, reported.size
  end

  # When nothing can be written, they would fill the memory in some days.
  def test_without_room_they_are_only_counted
    reported = []
    room = false
    complaints = Gyre::Log::Complaints.new(2, room: -> { room }) { |*words| reported << words }
    3.times do |second|
      complaints.tick(100.0 + second)
      complaints.add("peer", "wrong")
    end
    assert_empty reported
    room = true
    complaints.tick(103.0)
    assert_equal [["warn", "3 more complaints about clients were left out"]], reported
  end
end
