# frozen_string_literal: true

# Gyre.blocking: blocking work beside the loop; docs/blocking.md has its effect on each Ruby.

require "gyre/offload"

module Gyre
  # Runs the block in a pool's thread while the fiber waits: for computing, or C code that waits.
  # Low priority gives loops the GVL back soon. A cancelled wait also ends the work, like
  # Thread#kill. Runs directly without a scheduler or in a blocking fiber.
  #
  # The block lacks the caller's state (Thread#[], Active Record's connections, the current task).
  #
  #   hash = Gyre.blocking { BCrypt::Password.create(password) }
  def self.blocking(&block)
    raise ArgumentError, "blocking needs a block" unless block

    Offload.run(Offload::Blocking.new(block))
  end

  module Offload
    class Blocking
      # Ruby's lowest: from 3.3 on it shortens turns from 100 ms to an eighth.
      PRIORITY = -3

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
