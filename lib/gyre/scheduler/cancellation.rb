# frozen_string_literal: true

# What the end of a timeout must not replace. When the time of Timeout.timeout is over while a stop unwinds its block, and an
# `ensure` there waits, Timeout::Error is raised at that wait, and the stop is only its cause. A program that rescues
# Timeout::Error would go on as if it had never been stopped. Both engines' timeout_after ask here as such an error leaves the block.

module Gyre
  class Scheduler
    # For timeout_after.
    # @api private
    module Cancellation
      # Those that were there before the block began, as in an `ensure`, do not count: cleaning up may have a time limit of its own.
      # @param error [Exception] the timeout's own
      # @param before [Exception, nil] what was on its way when the block began
      # @return [Stop, Task::Expired, nil] the cancellation that it has replaced in the block
      def cancellation_in(error, before)
        return if error.respond_to?(:cancels?) # the end of a deadline: Gyre::Deadline decides itself

        while (error = error.cause) && !error.equal?(before)
          return error if error.respond_to?(:cancels?) && error.cancels?
        end
      end

      private

      # For the portable engine: runs the block of a timeout.
      # @param expiry [Portable::Expiry] knows the timeout's own error
      def keep_cancellation(expiry)
        before = $!
        begin
          return yield
        rescue Exception => error # rubocop:disable Lint/RescueException -- raised again, unless it has replaced a stop
          cancellation = cancellation_in(error, before) if error.equal?(expiry.error)
          raise unless cancellation
        end
        raise cancellation # not in the rescue: they would be each other's causes
      end
    end
  end
end
