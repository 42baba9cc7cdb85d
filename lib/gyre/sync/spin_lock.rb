# frozen_string_literal: true

# A lock for a few lines that never wait: protects state that Channel, Semaphore, Run and
# Offload::Pool share between threads. Callers let other threads run instead of parking, as it is
# held for a moment only: a parked fiber could be stopped before its work under the lock, such as
# giving a place back. Defers exceptions for the thread (Thread#raise, Timeout) until after these
# lines, so that neither lock nor work is left half done. A trap handler may still run between them,
# in the fiber that it interrupts.

module Gyre
  class SpinLock
    # For Thread.handle_interrupt. Uses a constant: a literal would call Object#hash, where Ruby 3.1
    # may raise an exception for the thread.
    NEVER = { Object => :never }.freeze

    # An owner with a ConditionVariable passes its mutex.
    def initialize(mutex = Thread::Mutex.new)
      @mutex = mutex
    end

    # The block must not wait. Raises ThreadError in a trap handler that interrupts the holder.
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
