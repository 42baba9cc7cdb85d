# frozen_string_literal: true

# A lock for a few lines that never wait: held by Channel, Semaphore, Run and Offload::Pool around
# what several threads share. So it is free in a moment, and a caller that waits for it lets other
# threads run until then instead of parking: a fiber that parked here could be stopped before it has
# done what the lock is for, as to give a place back. Exceptions for the thread (Thread#raise,
# Timeout) are raised after these lines: they leave neither the lock taken nor the work half done.
# A trap handler runs between them all the same, in the fiber that it interrupts.

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
    # @raise [ThreadError] in a trap handler that interrupts its holder: it would wait without end
    def synchronize
      Thread.handle_interrupt(NEVER) do
        until @mutex.try_lock
          raise ThreadError, "held by what this trap handler interrupts; use a thread or a Gyre::Queue" if @mutex.owned?

          Thread.pass
        end
        begin
          yield
        ensure
          @mutex.unlock
        end
      end
    end
  end
end
