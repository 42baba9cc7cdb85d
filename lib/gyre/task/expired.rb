# frozen_string_literal: true

# How the end of a with_timeout travels: as an exception of its own that knows which with_timeout it belongs to, and
# only that one turns it into the exception that the caller sees. So an outer timeout passes through a
# `rescue Gyre::TimeoutError` around an inner one. Gyre::Task#with_timeout raises and rescues it; nobody else does.

module Gyre
  class Task
    # No StandardError: code inside the block is not meant to rescue it.
    # @api private
    class Expired < Exception # rubocop:disable Lint/InheritException
      # @return [Object] identifies one call of with_timeout
      attr_reader :scope

      # @param scope [Object]
      def initialize(scope)
        super("the time of a with_timeout is over")
        @scope = scope
      end

      # Another cancellation that was on its way through the block when this one came, and which goes first: a stop, or
      # an outer timeout. One that was there before the block began, as in an ensure, does not count.
      # @param before [Exception, nil] what was on its way when the block began
      # @return [Stop, Expired, nil]
      def interrupted(before)
        error = cause
        until error.nil? || error.equal?(before)
          return error if error.is_a?(Stop) || error.is_a?(Expired)

          error = error.cause
        end
      end
    end
  end
end
