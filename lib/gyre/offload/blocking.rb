# frozen_string_literal: true

# Gyre.blocking: runs blocking work in a thread. docs/blocking.md has the effect on each Ruby.

require "gyre/offload"

module Gyre
  # Runs the block in a pool's thread while the fiber waits. Meant for computing, and for C code
  # that waits. The thread's low priority gives loops the GVL back soon. Cancelling the wait also
  # ends the work, like Thread#kill. Runs the block directly if no scheduler is set or the fiber
  # is blocking.
  #
  # The thread lacks the caller's state (Thread#[], Active Record's connections, the task), but as
  # a new thread it inherits fiber storage (Fiber[], from Ruby 3.2 on). Values that the block sets
  # by Thread#[] and Fiber[] end with the block.
  #
  #   hash = Gyre.blocking { BCrypt::Password.create(password) }
  def self.blocking(&block)
    raise ArgumentError, "blocking needs a block" unless block

    Offload.run(Offload::Blocking.new(block))
  end

  module Offload
    class Blocking
      # Ruby's lowest priority. From 3.3 on it cuts a turn with the GVL to an eighth of 100 ms.
      PRIORITY = -3

      def initialize(work)
        @work = work
        @caller = Thread.current
        @storage = Fiber.current.storage if Gyre::Job::STORAGE
      end

      def call
        thread = Thread.current
        return @work.call if thread.equal?(@caller)

        begin
          thread.priority = PRIORITY
          Gyre::Job.event(nil) do
            @storage&.each { |key, value| Fiber[key] = value }
            @work.call
          end
        ensure
          thread.priority = 0
        end
      end
    end
  end
end
