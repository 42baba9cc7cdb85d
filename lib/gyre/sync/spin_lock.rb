# frozen_string_literal: true

# A lock for a few lines that never wait: held by Channel, Semaphore and Run around what several
# threads share. So it is free in a moment, and a caller that waits for it lets other threads run
# until then instead of parking: a fiber that parked here could be stopped before it has done what
# the lock is for, as to give a place back.

module Gyre
  class SpinLock
    def initialize
      @mutex = Thread::Mutex.new
    end

    def lock
      Thread.pass until @mutex.try_lock
    end

    def unlock
      @mutex.unlock
    end

    # @yield with the lock; must not wait for anything
    # @return [Object] the block's value
    def synchronize
      lock
      begin
        yield
      ensure
        unlock
      end
    end
  end
end
