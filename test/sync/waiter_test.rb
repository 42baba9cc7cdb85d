# frozen_string_literal: true

# Gyre::Waiter: waits and is woken, in a fiber and in a thread.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("WaiterTest") do
  def everywhere(&block)
    Gyre.run { |task| task.async(&block).wait }
    Thread.new(&block).value
  end

  def test_a_wake_up_before_the_wait_ends_no_later_one
    Gyre.run do |task|
      sleeping = task.async do
        waiter = Gyre::Waiter.new
        waiter.wake
        assert waiter.park
        sleep
      end
      sleep 0.01
      refute_predicate sleeping, :finished?
      sleeping.stop
    end
  end

  def test_an_endless_timeout_is_none
    everywhere do
      waiter = Gyre::Waiter.new
      waker = Thread.new { eventually { waiter.instance_variable_get(:@parked) } && waiter.wake }
      assert waiter.park(Float::INFINITY)
      waker.join
    end
  end

  def test_it_is_woken_with_a_value
    everywhere do
      waiter = Gyre::Waiter.new
      thread = Thread.new { sleep(0.01) && waiter.wake(:value) }
      assert waiter.park
      assert_equal :value, waiter.value
      thread.join
    end
  end

  def test_one_that_was_woken_before_does_not_park
    everywhere do
      waiter = Gyre::Waiter.new
      waiter.wake
      assert waiter.park
    end
  end

  def test_its_time_may_be_over
    everywhere do
      waiter = Gyre::Waiter.new
      took = duration_s { refute waiter.park(0.02) }
      assert_operator took, :>=, 0.019
      refute waiter.park(0)
      refute waiter.park(-1)
    end
  end

  def test_a_wake_up_for_something_else_does_not_end_the_wait
    Gyre.run do |task|
      waiter = nil
      waiting = task.async do
        waiter = Gyre::Waiter.new
        waiter.park
        :woken
      end
      Fiber.scheduler.unblock(:other, waiter.instance_variable_get(:@fiber))
      sleep 0.01
      assert_predicate waiting, :alive?
      waiter.wake
      assert_equal :woken, waiting.wait
    end
  end
end
