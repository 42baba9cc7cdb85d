# frozen_string_literal: true

# A signal whose receiver is stopped, or out of time, goes to the next one.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("SchedulerConditionWaitTest", backends: [GyreTest::Engines::ALL.first, GyreTest::Engines::ALL.last].uniq) do
  def setup
    @mutex = Thread::Mutex.new
    @condition = Thread::ConditionVariable.new
    @there = 0
    @taken = []
  end

  def take(name)
    @mutex.synchronize do
      @condition.wait(@mutex) until @there.positive?
      @there -= 1
      @taken << name
    end
  end

  def give
    @there += 1
    @condition.signal
  end

  def test_one_that_is_stopped_when_it_has_been_signalled_and_waits_for_the_mutex
    Gyre.run do |task|
      first = task.async { take(:first) }
      second = task.async { take(:second) }
      @mutex.synchronize do
        give
        task.yield # the first one has the signal, and needs the mutex
        first.stop
        task.yield
      end
      second.wait
    end
    assert_equal [:second], @taken
  end

  def test_one_that_is_stopped_in_an_inner_fiber
    Gyre.run do |task|
      first = task.async { Fiber.new { take(:first) }.resume }
      second = task.async { take(:second) }
      @mutex.synchronize do
        give
        task.yield
        first.stop
        task.yield
      end
      second.wait
    end
    assert_equal [:second], @taken
  end

  def test_one_that_is_signalled_on_its_way_out
    Gyre.run do |task|
      first = task.async { take(:first) }
      second = task.async { take(:second) }
      @mutex.synchronize do
        first.stop
        task.yield # it needs the mutex to leave
        give
      end
      second.wait
    end
    assert_equal [:second], @taken
  end

  def test_a_stop_without_a_signal_wakes_no_other_one
    woken = 0
    Gyre.run do |task|
      first = task.async { @mutex.synchronize { @condition.wait(@mutex) } }
      second = task.async { @mutex.synchronize { @condition.wait(@mutex) and woken += 1 } }
      first.stop.wait
      3.times { task.yield }
      second.stop.wait
    end
    assert_equal 0, woken
  end
end
