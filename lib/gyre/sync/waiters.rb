# frozen_string_literal: true

# Waiters in order, for Gyre's queues, Promise and Transport. Passes a wake-up to the next waiter if
# the woken waiter was stopped or is late. Defers the thread's exceptions (Thread#raise, Timeout)
# between removing a waiter and waking it.
#
# Threads use the list without a lock. The Hash compares by identity, so each of its operations runs
# in C under the GVL, and a waiter is removed only once.

require "gyre/sync/spin_lock"
require "gyre/sync/waiter"

module Gyre
  class Waiters
    def initialize(blocker = self)
      @blocker = blocker
      @waiting = {}.compare_by_identity
    end

    def size = @waiting.size

    # Parks the caller until it is woken; false after the timeout. Calls the block once a wake-up
    # can reach the caller, and parks only if the block returns true.
    def wait(timeout = nil, rank = 0)
      waiter = Waiter.new(@blocker)
      woken = false
      @waiting[waiter] = rank
      return true unless yield

      woken = waiter.park(timeout)
    ensure
      Thread.handle_interrupt(SpinLock::NEVER) do
        taken = !@waiting.delete(waiter)
        wake if taken && !woken
      end
    end

    # Wakes the waiter that has waited longest. Any thread may call it.
    def wake = wake_some(1)

    def wake_all = wake_some(@waiting.size)

    private

    def wake_some(count)
      return if @waiting.empty?

      Thread.handle_interrupt(SpinLock::NEVER) { count.times { take_out&.wake } }
    end

    def take_out
      waiter, = @waiting.shift
      waiter
    end
  end
end
