# frozen_string_literal: true

# The wait of a fiber under any Fiber::Scheduler, or of a thread. Made by Gyre::Waiters, Condition,
# Semaphore, Selection and Task. Any thread may wake it, even before it parks.

require "gyre/clock"

module Gyre
  class Waiter
    attr_reader :value

    # print_hierarchy shows `blocker`.
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

    # False after the timeout.
    def park(timeout = nil)
      timeout = nil if timeout == Float::INFINITY # ConditionVariable does not take it
      if @scheduler
        park_until(timeout) { |seconds| @scheduler.block(@blocker, seconds) }
      else
        @lock.synchronize { park_until(timeout) { |seconds| @condition.wait(@lock, seconds) } }
      end
    end

    def wake(value = nil)
      @value = value
      @woken = true
      if @scheduler
        @scheduler.unblock(@blocker, @fiber) if @parked # otherwise it would end a later wait of the fiber
      else
        signal_thread
      end
    end

    private

    # Signals under the lock, as a signal between the waiting thread's check and sleep would be
    # lost. If the lock is taken, a new thread waits for it: the caller may hold other locks, or be
    # a signal handler.
    def signal_thread
      return Thread.new { @lock.synchronize { @condition.signal } } unless @lock.try_lock

      @condition.signal
      @lock.unlock
    end

    # Waits repeatedly, as a wait may end early.
    def park_until(timeout)
      @parked = true # in this order: `wake` looks here after it has set @woken
      Clock.within(timeout) do |left|
        break if @woken

        yield left
      end
      @woken
    ensure
      @parked = false
    end
  end
end
