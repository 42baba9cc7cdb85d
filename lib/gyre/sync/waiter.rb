# frozen_string_literal: true

# Something that waits to be woken: a fiber under any Fiber::Scheduler, or a thread without one.
# Gyre::Waiters, Condition and Semaphore make one for each wait; any thread may wake it, also before
# it has parked.

require "gyre/clock"

module Gyre
  class Waiter
    # @return [Object] what it was woken with
    attr_reader :value

    # @param blocker [Object] what it waits for, to be shown where the scheduler is printed
    def initialize(blocker = self)
      @blocker = blocker
      @woken = @parked = false
      @scheduler = Fiber.current_scheduler
      if @scheduler
        @fiber = Fiber.current
      else
        @lock = Thread::Mutex.new
        @condition = Thread::ConditionVariable.new
      end
    end

    # @param timeout [Numeric, nil] seconds
    # @return [Boolean] whether it was woken in time
    def park(timeout = nil)
      timeout = nil if timeout == Float::INFINITY # a ConditionVariable does not take it
      if @scheduler
        park_until(timeout) { |seconds| @scheduler.block(@blocker, seconds) }
      else
        @lock.synchronize { park_until(timeout) { |seconds| @condition.wait(@lock, seconds) } }
      end
    end

    # Never waits itself.
    # @param value [Object]
    def wake(value = nil)
      @value = value
      @woken = true
      if @scheduler
        @scheduler.unblock(@blocker, @fiber) if @parked # else it would end some later wait of the fiber
      else
        signal_thread
      end
    end

    private

    # Its thread has the lock in the moment before it sleeps, and a signal then would be lost. The
    # caller must not wait for it: it may have locks of its own, or be a signal handler.
    def signal_thread
      return Thread.new { @lock.synchronize { @condition.signal } } unless @lock.try_lock

      @condition.signal
      @lock.unlock
    end

    # A wait may end early without having been woken, so it is repeated with what is left of the
    # time.
    def park_until(timeout)
      @parked = true # in this order: `wake` looks here after it has set @woken
      deadline = timeout && (Clock.now + timeout)
      until @woken
        left = deadline && (deadline - Clock.now)
        return false if left && left <= 0

        yield left
      end
      true
    ensure
      @parked = false
    end
  end
end
