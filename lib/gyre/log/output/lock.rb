# frozen_string_literal: true

# Which process may write a log file: an flock(2) on the file and one on its journal, for
# Output::File and Journal. The file can be renamed by others, and a second server would then lock
# the new one of that name; the journal keeps its name. It reads and writes nothing.

require "gyre/clock"

module Gyre
  module Log
    module Output
      # The locks of one log file. They end with the descriptors, whatever the process dies of.
      class Lock
        RETRY_S = 0.05

        # @param name [String] the log file's, for messages
        # @param retries [Retry] reports when there are no locks here
        # @param patience_s [Numeric] how long from now on another process may take to let go
        def initialize(name, retries, patience_s)
          @name = name
          @retries = retries
          @deadline = Clock.now + patience_s
        end

        # @param io [IO] gets the lock until it is closed
        # @raise [ArgumentError] when another process still has it
        def take(io)
          until @missing || io.flock(::File::LOCK_EX | ::File::LOCK_NB)
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
