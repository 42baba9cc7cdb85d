# frozen_string_literal: true

require "test_helper"
require "gyre/net/backoff"

class NetBackoffTest < Minitest::Test
  def test_pauses_double_up_to_the_longest_and_begin_again_after_a_success
    backoff = Gyre::Backoff.new(0.5, 3)
    assert_equal [0.5, 1.0, 2.0, 3, 3], Array.new(5) { backoff.failed }
    assert_equal 5, backoff.failures
    backoff.succeeded
    assert_equal [0, 0.5], [backoff.failures, backoff.pause_s]
  end

  def test_jitter_stays_within_the_shortest_and_the_longest
    backoff = Gyre::Backoff.new(1, 100, jitter: 0.25)
    3.times { backoff.failed }
    pauses = Array.new(200) { backoff.pause_s }
    assert_operator pauses.minmax, :!=, [8, 8]
    assert(pauses.all? { |pause| pause.between?(6, 10) })
    20.times { backoff.failed }
    assert_operator Array.new(200) { backoff.pause_s }.max, :<=, 100
  end
end
