# frozen_string_literal: true

# One who waits to be woken: a fiber under any Fiber::Scheduler, or a thread without one. Gyre::Waiters, Condition and
# Semaphore make one for each wait; any thread may wake it, also before it has parked.

module Gyre
  # @api private
  class Waiter
    # @return [Object] what it was woken with
    attr_reader :value

    def initialize
      @woken = false
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
      if @scheduler
        park_until(timeout) { |seconds| @scheduler.block(self, seconds) }
      else
        @lock.synchronize { park_until(timeout) { |seconds| @condition.wait(@lock, seconds) } }
      end
    end

    # @return [Boolean]
    def woken?
      @woken
    end

    # @param value [Object]
    def wake(value = nil)
      @value = value
      @woken = true
      if @scheduler
        @scheduler.unblock(self, @fiber)
      else
        @lock.synchronize { @condition.signal }
      end
    end

    private

    # A wait may end early without having been woken, so it is repeated with what is left of the time.
    def park_until(timeout)
      deadline = timeout && (now + timeout)
      until @woken
        left = deadline && (deadline - now)
        return false if left && left <= 0

        yield left
      end
      true
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
