# frozen_string_literal: true

# Gyre.blocking: declared blocking work, beside the loop. What it reaches, and on which Ruby, is in
# docs/blocking.md.

require "gyre/offload"

module Gyre
  # Runs the block in a thread of a pool while the calling fiber waits and others run: for work that
  # computes, or C code that waits by itself. The block's thread has a low priority, so that loops
  # get the interpreter back soon. When the wait is cancelled (a stop, a timeout) the work is ended,
  # too, as by Thread#kill. Without a scheduler, or in a blocking fiber, the block just runs.
  #
  # The block runs in another thread and another fiber: what is kept by those (Thread#[], Active
  # Record's connections, the current task) is not there.
  #
  # @example
  #   hash = Gyre.blocking { BCrypt::Password.create(password) }
  #
  # @return [Object] the block's value
  # @raise [Exception] what the block raises
  def self.blocking(&block)
    raise ArgumentError, "blocking needs a block" unless block

    Offload.run(Offload::Blocking.new(block))
  end

  module Offload
    # Work at a low priority, where it is in a thread of the pool.
    # @api private
    class Blocking
      # The least that Ruby has. From 3.3 on it makes a thread's turn an eighth of 100 ms.
      PRIORITY = -3
      private_constant :PRIORITY

      # @param work [#call]
      def initialize(work)
        @work = work
        @caller = Thread.current
      end

      # @return what the work returns
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
