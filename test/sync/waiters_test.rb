# frozen_string_literal: true

# Gyre::Waiters for one thing: order, and that no wake-up gets lost.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("WaitersTest") do
  def test_the_longest_waiter_is_woken_first
    order = []
    waiters = Gyre::Waiters.new
    Gyre.run do |task|
      3.times { |index| task.async { waiters.wait { true } && order << index } }
      assert_equal 3, waiters.size
      3.times { waiters.wake && sleep(0.001) }
    end
    assert_equal [0, 1, 2], order
    assert_equal 0, waiters.size
  end

  def test_all_are_woken
    waiters = Gyre::Waiters.new
    woken = 0
    Gyre.run do |task|
      3.times { task.async { waiters.wait { true } && woken += 1 } }
      waiters.wake_all
    end
    assert_equal 3, woken
  end

  def test_no_fiber_parks_when_there_is_nothing_to_wait_for
    waiters = Gyre::Waiters.new
    Gyre.run { assert(waiters.wait { false }) }
    assert_equal 0, waiters.size
  end

  def test_a_waiter_out_of_time_is_not_among_them_any_more
    waiters = Gyre::Waiters.new
    Gyre.run { refute(waiters.wait(0.001) { true }) }
    assert_equal 0, waiters.size
    waiters.wake
  end

  def test_a_wake_up_for_one_that_is_stopped_goes_to_the_next
    waiters = Gyre::Waiters.new
    woken = []
    Gyre.run do |task|
      first = task.async { waiters.wait { true } && woken << :first }
      second = task.async { waiters.wait { true } && woken << :second }
      first.stop
      waiters.wake # the first one is still among the waiters
      first.wait
      sleep 0.001
      second.stop
    end
    assert_equal 1, woken.size # it depends on the engine whether the first one had it before it was stopped
  end
end
