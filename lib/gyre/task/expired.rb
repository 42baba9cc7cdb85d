# frozen_string_literal: true

# The exception that ends a deadline's block. Only its own deadline converts it to the caller's
# exception, so that a `rescue Gyre::TimeoutError` around an inner timeout does not catch an outer
# one. Made by the scheduler after the time; only Gyre::Deadline rescues it.

module Gyre
  class Task
    # Not a StandardError, so that code in the block does not rescue it.
    class Expired < Exception # rubocop:disable Lint/InheritException
      attr_reader :deadline

      # Runs on the loop at the end of the time, and stops the tasks below.
      def initialize(deadline)
        super("the time is over: #{deadline}")
        @deadline = deadline
        deadline.expire
      end

      # True until it has left the deadline's block.
      def cancels? = !deadline.over?

      # Returns a cancellation that is leaving the block and goes before this one: a stop, or the
      # end of an outer deadline. `before` does not count: it was already propagating when the block
      # began, in an `ensure`.
      def interrupted(before)
        error = cause
        until error.nil? || error.equal?(before)
          return error if error.is_a?(Stop) || (error.is_a?(Expired) && error.deadline.set_at < @deadline.set_at)

          error = error.cause
        end
      end
    end
  end
end
