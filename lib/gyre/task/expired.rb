# frozen_string_literal: true

# Ends a deadline's block. Only its deadline converts it to the caller's exception: a `rescue
# Gyre::TimeoutError` around an inner timeout does not catch an outer one. Made by the scheduler.

module Gyre
  class Task
    # Not a StandardError: the block's code does not rescue it.
    class Expired < Exception # rubocop:disable Lint/InheritException
      attr_reader :deadline

      # On the loop at the deadline; stops the tasks below.
      def initialize(deadline)
        super("the time is over: #{deadline}")
        @deadline = deadline
        deadline.expire
      end

      # True while this exception is on its way out of the deadline's block.
      def cancels? = !deadline.over?

      # Returns a cancellation that leaves the block before this one: a stop, or an outer deadline's
      # end; but not `before`, which propagated when the block began in an `ensure`.
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
