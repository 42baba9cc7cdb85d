# frozen_string_literal: true

# A lock for a few lines that never wait: for the state that Channel, Semaphore, Run and
# Offload::Pool share between threads. It is held for a moment only, so a caller lets other threads
# run instead of parking: a parked fiber could be stopped before its work under the lock, such as
# giving a place back. Exceptions for the thread (Thread#raise, Timeout) are raised after these
# lines: they leave neither the lock taken nor the work half done. A trap handler may still run
# between them, in the fiber that it interrupts.

module Gyre
  class SpinLock
    # For Thread.handle_interrupt. A constant, as a literal calls Object#hash, where Ruby 3.1 may
    # raise an exception for the thread.
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
