# frozen_string_literal: true

# The waiters for one thing, first come first served: Gyre::Queue and LimitedQueue keep them here. A
# wake-up that comes as its receiver is stopped or out of time goes on to the next one, so none is
# lost. An exception for the thread (Thread#raise, Timeout) does not come between taking a waiter
# out and waking it.
#
# Used by several threads at once without a lock: with compare_by_identity each Hash operation runs
# in C without giving the interpreter's lock away, and a waiter that is taken out of the Hash is
# taken once.

require "gyre/sync/spin_lock"
require "gyre/sync/waiter"

module Gyre
  class Waiters
    # @param blocker [Object] what they wait for
    def initialize(blocker = self)
      @blocker = blocker
      @waiting = {}.compare_by_identity
    end

    # @return [Integer]
    def size
      @waiting.size
    end

    # Parks the caller until it is woken.
    #
    # @param timeout [Numeric, nil] seconds
    # @param rank [Numeric] for queues that wake by priority
    # @yield asked after the caller can be woken, before it parks
    # @yieldreturn [Boolean] whether there is still something to wait for
    # @return [Boolean] false when the time was over
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
    def wake
      wake_some(1)
    end

    # Wakes every waiter.
    def wake_all
      wake_some(@waiting.size)
    end

    private

    def wake_some(count)
      return if @waiting.empty?

      Thread.handle_interrupt(SpinLock::NEVER) { count.times { take_out&.wake } }
    end

    # @return [Waiter, nil] the one whose turn it is
    def take_out
      waiter, = @waiting.shift
      waiter
    end
  end
end
