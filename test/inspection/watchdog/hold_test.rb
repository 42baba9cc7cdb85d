# frozen_string_literal: true

require "test_helper"
require "gyre/inspection/watchdog"

class WatchdogHoldTest < Minitest::Test
  def setup
    @hold = Gyre::Watchdog::Hold.new(0.1)
  end

  def test_a_loop_that_gets_on_or_sleeps_is_not_held
    looks = [[1, 0], [2, 0.5], [nil, 1], [nil, 2], [3, 3], [4, 4]].map { |pulse, now| look(pulse, now) }
    assert_equal [nil], looks.uniq
  end

  def test_it_is_reported_at_the_limit_and_each_time_that_it_has_doubled_and_at_the_end
    looks = [0, 0.05, 0.125, 0.15, 0.2, 0.25, 0.45, 1.7, 1.8, 3.25].map { |now| look(7, now) }
    assert_equal [nil, nil, [:held, 0.125], nil, [:held, 0.2], nil, [:held, 0.45], [:held, 1.7], nil, [:held, 3.25]], looks
    assert_equal [:over, 4], look(8, 4)
    assert_nil look(9, 4.05)
  end

  def test_the_next_hold_is_reported_from_its_own_beginning
    [[1, 0], [1, 1], [2, 2]].each { |pulse, now| look(pulse, now) }
    assert_nil look(2, 2.05)
    assert_equal [:held, 0.25], look(2, 2.25)
    assert_equal [:over, 1], look(nil, 3)
  end

  def test_a_short_one_ends_in_silence
    assert_equal [nil, nil, nil], [look(1, 0), look(1, 0.05), look(2, 0.2)]
  end

  def test_code_that_was_kept_from_computing_holds_nothing
    assert_nil look(1, 0, cpu_s: 5)
    assert_nil look(1, 1, cpu_s: 5.05)
    assert_equal [:held, 2], look(1, 2, cpu_s: 6)
    assert_equal "computing", @hold.kind
  end

  def test_a_wait_in_a_call_needs_no_processor
    look(1, 0, cpu_s: 5)
    assert_equal [:held, 1], look(1, 1, cpu_s: 5, blocked: true)
    assert_equal "waiting in a call that stops its thread", @hold.kind
  end

  def test_code_that_computed_until_a_moment_ago_is_reported_as_computing
    look(1, 0, cpu_s: 5)
    look(1, 1, cpu_s: 5.9, blocked: true)
    assert_equal "computing", @hold.kind
  end

  private

  def look(pulse, now, cpu_s: nil, blocked: false)
    @hold.look(pulse, now, cpu_s, blocked: blocked)
  end
end
