# frozen_string_literal: true

# The waiters for one thing, first come first served, for Gyre::Queue and LimitedQueue. Passes on a
# wake-up whose receiver is just stopped or out of time. Lets no exception for the thread
# (Thread#raise, Timeout) come between removing a waiter and waking it.
#
# Several threads use it without a lock: with compare_by_identity each Hash operation runs in C and
# keeps the interpreter's lock, so that a waiter is removed only once.

require "gyre/sync/spin_lock"
require "gyre/sync/waiter"

module Gyre
  class Waiters
    def initialize(blocker = self)
      @blocker = blocker
      @waiting = {}.compare_by_identity
    end

    def size = @waiting.size

    # Parks the caller until it is woken. The block, called once the caller can be woken, returns
    # whether there is still something to wait for. Returns false after the timeout.
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

    # Wakes the longest waiter, if any. From any thread.
    def wake = wake_some(1)

    # Wakes every waiter.
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
