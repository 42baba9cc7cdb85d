# frozen_string_literal: true

# Gyre.blocking: declared blocking work, beside the loop. docs/blocking.md tells what it reaches on
# which Ruby.

require "gyre/offload"

module Gyre
  # Runs the block in a thread of a pool while the calling fiber waits and others run: for
  # computing, or C code that waits by itself. The thread has a low priority, so that loops get the
  # interpreter back soon. A cancelled wait (a stop, a timeout) ends the work, too, as by
  # Thread#kill. Without a scheduler, or in a blocking fiber, the block just runs.
  #
  # The block runs in another thread and fiber, without their state (Thread#[], Active Record's
  # connections, the current task).
  #
  #   hash = Gyre.blocking { BCrypt::Password.create(password) }
  def self.blocking(&block)
    raise ArgumentError, "blocking needs a block" unless block

    Offload.run(Offload::Blocking.new(block))
  end

  module Offload
    # Runs at a low priority in a thread of the pool.
    class Blocking
      # Ruby's lowest. From 3.3 on it makes a thread's turn an eighth of 100 ms.
      PRIORITY = -3
      private_constant :PRIORITY

      def initialize(work)
        @work = work
        @caller = Thread.current
      end

      def call
        thread = Thread.current
        return @work.call if thread.equal?(@caller)

        begin
          thread.priority = PRIORITY
          @work.call
        ensure
          thread.priority = 0
        end
      end
    end
  end
end
