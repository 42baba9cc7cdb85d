# frozen_string_literal: true

# Gyre::Condition: waiting for something to happen.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("ConditionTest") do
  def test_a_signal_wakes_every_waiter_with_its_value
    condition = Gyre::Condition.new
    Gyre.run do |task|
      waiting = Array.new(3) { task.async { condition.wait } }
      assert_equal 3, condition.waiting
      refute_empty condition
      assert_same condition, condition.signal(:news)
      assert_equal %i[news news news], waiting.map(&:wait)
      assert_empty condition
    end
  end

  def test_a_signal_without_a_waiter_is_lost
    condition = Gyre::Condition.new
    condition.signal(:early)
    Gyre.run { assert_nil condition.wait(timeout: 0.01) }
  end

  def test_the_value_may_be_left_out
    condition = Gyre::Condition.new
    Gyre.run do |task|
      waiting = task.async { [condition.wait, :woken] }
      condition.signal
      assert_equal [nil, :woken], waiting.wait
    end
  end

  def test_a_wait_may_be_limited
    condition = Gyre::Condition.new
    Gyre.run do
      took = duration_s { assert_nil condition.wait(timeout: 0.02) }
      assert_operator took, :>=, 0.019
      assert_empty condition
    end
  end

  def test_a_task_that_is_stopped_waits_no_more
    condition = Gyre::Condition.new
    Gyre.run do |task|
      task.async { condition.wait }.stop.wait
      assert_empty condition
    end
  end

  def test_a_task_that_waits_again_waits_for_the_next_signal
    condition = Gyre::Condition.new
    heard = []
    Gyre.run do |task|
      task.async { 2.times { heard << condition.wait } }
      condition.signal(1)
      sleep 0.001
      condition.signal(2)
    end
    assert_equal [1, 2], heard
  end

  def test_threads_may_signal_and_wait
    condition = Gyre::Condition.new
    Gyre.run do |task|
      waiting = task.async { condition.wait }
      thread = Thread.new { condition.wait }
      eventually { condition.waiting == 2 }
      Thread.new { condition.signal(:news) }.join
      assert_equal %i[news news], [waiting.wait, thread.value]
    end
  end

  def test_a_notification_is_the_same
    Gyre.run do |task|
      notification = Gyre::Notification.new
      waiting = task.async { notification.wait }
      assert_equal 1, notification.waiting_count
      assert_match(/1 waiting/, notification.inspect)
      notification.signal(:value)
      refute_predicate waiting, :finished?
      assert_equal :value, waiting.wait
    end
  end
end
