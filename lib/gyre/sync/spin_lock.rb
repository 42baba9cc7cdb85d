# frozen_string_literal: true

# A lock for a few lines that do not wait. Protects state that Channel, Semaphore, Run and
# Offload::Pool share between threads. Callers spin instead of parking, as a parked fiber could be
# stopped before it gets the lock. Defers the thread's exceptions (Thread#raise, Timeout), so that
# nothing is left half done. A trap handler may still interrupt the code under the lock.

module Gyre
  class SpinLock
    # Argument of Thread.handle_interrupt. A literal in each call would hash its key, and Ruby 3.1
    # may raise an exception for the thread meanwhile.
    NEVER = { Object => :never }.freeze

    # `mutex`: given if a ConditionVariable uses the same mutex.
    def initialize(mutex = Thread::Mutex.new)
      @mutex = mutex
    end

    # The block must not wait. Raises ThreadError in a trap handler that has interrupted the block.
    def synchronize
      Thread.handle_interrupt(NEVER) do
        until @mutex.try_lock
          raise ThreadError, "held by the code that this trap handler interrupts; use a thread or a Gyre::Queue" if @mutex.owned?

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
