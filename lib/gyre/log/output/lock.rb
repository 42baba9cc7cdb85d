# frozen_string_literal: true

# Locks a log file for one writer by flock(2) on the file and its journal. The journal keeps its
# name when another program renames the file. Used by Output::FileOutput and Journal.

require "gyre/clock"

module Gyre
  module Log
    module Output
      # The kernel releases the lock when its files are closed, even in a crash.
      class Lock
        RETRY_S = 0.05

        # `patience_s` is the time to wait for another process to release the lock.
        def initialize(name, retries, patience_s)
          @name = name
          @retries = retries
          @deadline = Clock.now + patience_s
        end

        # Locks `io` until it is closed. Raises ArgumentError if another process keeps the lock.
        def take(io)
          until @missing || io.flock(File::LOCK_EX | File::LOCK_NB)
            raise ArgumentError, "another server writes to #{@name}" if Clock.now >= @deadline

            sleep RETRY_S
          end
        rescue Errno::ENOLCK, Errno::ENOTSUP
          @missing = true
          @retries.report("this file system has no locks: take care that no other server writes to it")
        end
      end
    end
  end
end
