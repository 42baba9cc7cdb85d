# frozen_string_literal: true

# How the end of a deadline travels: as an exception of its own that refers to its deadline, and
# only that one turns it into the exception that the caller sees. So an outer timeout passes through
# a `rescue Gyre::TimeoutError` around an inner one. Made by the scheduler when the time is over;
# only Gyre::Deadline rescues it.

module Gyre
  class Task
    # No StandardError: code inside the block is not meant to rescue it.
    class Expired < Exception # rubocop:disable Lint/InheritException
      # @return [Deadline]
      attr_reader :deadline

      # On the loop, at the moment when the time is over: so the tasks below are stopped now.
      # @param deadline [Deadline]
      def initialize(deadline)
        super("the time is over: #{deadline}")
        @deadline = deadline
        deadline.expire
      end

      # @return [Boolean] whether it still has to leave the deadline's block
      def cancels?
        !deadline.over?
      end

      # Another cancellation that was on its way through the block when this one came, and which
      # goes first: a stop, or the end of an outer deadline. One that was there before the block
      # began, as in an ensure, does not count.
      # @param before [Exception, nil] what was on its way when the block began
      # @return [Stop, Expired, nil]
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
