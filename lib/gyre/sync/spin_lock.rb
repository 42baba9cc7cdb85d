# frozen_string_literal: true

# A lock for a few lines that never wait: held by Channel, Semaphore, Run and Offload::Pool around
# what several threads share. So it is free in a moment, and a caller that waits for it lets other
# threads run until then instead of parking: a fiber that parked here could be stopped before it has
# done what the lock is for, as to give a place back. Exceptions for the thread (Thread#raise,
# Timeout) are raised after these lines: they leave neither the lock taken nor the work half done.

module Gyre
  class SpinLock
    # For Thread.handle_interrupt. A constant, for the literal asks Object for its hash, and on Ruby
    # 3.1 an exception for the thread may come there.
    NEVER = { Object => :never }.freeze

    # @param mutex [Thread::Mutex] for an owner that needs it for a ConditionVariable
    def initialize(mutex = Thread::Mutex.new)
      @mutex = mutex
    end

    # @yield with the lock; must not wait for anything
    # @return [Object] the block's value
    def synchronize
      Thread.handle_interrupt(NEVER) do
        Thread.pass until @mutex.try_lock
        begin
          yield
        ensure
          @mutex.unlock
        end
      end
    end
  end
end
