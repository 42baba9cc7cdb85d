# frozen_string_literal: true

# Gyre.blocking: runs declared blocking work beside the loop. docs/blocking.md tells its effect on
# each Ruby.

require "gyre/offload"

module Gyre
  # Runs the block in a thread of a pool while the calling fiber waits and others run: for
  # computing, or for C code that waits by itself. Gives the thread a low priority, so that loops
  # get the interpreter back soon. A cancelled wait (a stop, a timeout) also ends the work, like
  # Thread#kill. Runs the block directly without a scheduler, or in a blocking fiber.
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
      # Ruby's lowest. From Ruby 3.3 on, this priority shortens the thread's turns from 100 ms to an
      # eighth of that.
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
