# frozen_string_literal: true

# Ends a deadline's block. Only its deadline converts it to the caller's exception, so a `rescue
# Gyre::TimeoutError` around an inner timeout does not catch an outer one. Made by the scheduler.

module Gyre
  class Task
    # Not a StandardError, so that `rescue => error` in the block does not catch it.
    class Expired < Exception # rubocop:disable Lint/InheritException
      attr_reader :deadline

      # Called on the loop at the deadline; stops the block's tasks.
      def initialize(deadline)
        super("the time is over: #{deadline}")
        @deadline = deadline
        deadline.expire
      end

      # True until this exception has left the deadline's block.
      def cancels? = !deadline.over?

      # Returns the cancellation that was leaving the block when this exception came: a stop, or an
      # outer deadline's end. Ignores `before`, which was propagating when the block began in an
      # `ensure`.
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
