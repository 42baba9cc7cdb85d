# frozen_string_literal: true

# Waiters in order, for Gyre::Queue and LimitedQueue. Passes on the wake-up of a stopped or late
# receiver. Defers the thread's exceptions (Thread#raise, Timeout) between removing and waking a
# waiter.
#
# Threads use it without a lock: by compare_by_identity each Hash operation is C under the GVL, so
# that a waiter is removed only once.

require "gyre/sync/spin_lock"
require "gyre/sync/waiter"

module Gyre
  class Waiters
    def initialize(blocker = self)
      @blocker = blocker
      @waiting = {}.compare_by_identity
    end

    def size = @waiting.size

    # Parks the caller until it is woken; false after the timeout. The block, called when a wake-up
    # is possible, tells whether there is still something to wait for.
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

    # Wakes the longest waiter. Any thread may call it.
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
