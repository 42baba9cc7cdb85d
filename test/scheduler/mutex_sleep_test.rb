# frozen_string_literal: true

# A fiber that is stopped while it waits for a condition variable has the mutex again before
# anything else happens.

require "test_helper"
require "support/engines"
require "gyre"
require "monitor"
require "timeout"

GyreTest::Engines.test_case("SchedulerMutexSleepTest") do
  def setup
    @mutex = Mutex.new
    @condition = ConditionVariable.new
  end

  def wait_and_tell
    @mutex.synchronize do
      @condition.wait(@mutex)
    ensure
      @owned = @mutex.owned?
    end
  end

  def test_a_stop
    Gyre.run do |task|
      child = task.async { wait_and_tell }
      child.stop.wait
      assert_equal [:stopped, true, false], [child.status, @owned, @mutex.locked?]
    end
  end

  def test_timeouts
    Gyre.run do |task|
      assert_raises(Timeout::Error) { Timeout.timeout(0.01) { wait_and_tell } }
      assert_raises(Gyre::TimeoutError) { task.with_timeout(0.01) { wait_and_tell } }
      assert_equal [true, false], [@owned, @mutex.locked?]
    end
  end

  def test_its_owner_meanwhile_keeps_it_to_the_end_also_when_more_comes
    order = []
    Gyre.run do |task|
      waiter = task.async do
        task.with_timeout(0.02) { wait_and_tell }
      rescue Gyre::TimeoutError, Gyre::Stop
        order << :waiter
        raise
      end
      @mutex.synchronize do
        waiter.stop
        sleep 0.1
        order << :holder
      end
      waiter.wait rescue nil # either of the two may be first
    end
    assert_equal [%i[holder waiter], true, false], [order, @owned, @mutex.locked?]
  end

  # A program that rescues the timeout would go on although it was stopped.
  def test_a_timeout_does_not_replace_a_stop_that_was_first
    Gyre.run do |task|
      waiter = task.async do
        Timeout.timeout(0.01) { wait_and_tell }
      rescue Timeout::Error
        sleep # would never end
      end
      @mutex.synchronize do
        waiter.stop
        sleep 0.03
      end
      waiter.wait
    end
    assert @owned
  end

  def test_a_monitor
    monitor = Monitor.new
    Gyre.run do |task|
      child = task.async { monitor.synchronize { monitor.new_cond.wait } }
      child.stop.wait
      assert_equal [:stopped, false], [child.status, monitor.mon_locked?]
    end
  end

  def test_a_signal_still_wakes_one_and_a_time_still_passes
    Gyre.run do |task|
      child = task.async { wait_and_tell && :woken }
      task.yield
      @mutex.synchronize { @condition.signal }
      assert_equal :woken, child.wait
      @mutex.synchronize { @condition.wait(@mutex, 0.01) }
      refute_predicate @mutex, :locked?
    end
  end
end
