# frozen_string_literal: true

# What can be asked of a task, from any thread and without waiting. Part of Gyre::Task.

module Gyre
  class Task
    # @api private
    module Questions
      # @return [Symbol] :running until the block and all children are over; then :completed, :failed or :stopped
      def status
        @finished ? @status : :running
      end

      # @return [Boolean] whether the task is not over yet
      def alive?
        !@finished
      end
      alias running? alive?

      # @return [Boolean]
      def finished?
        @finished
      end

      # @return [Boolean] whether its block ended well
      def completed?
        @finished && @status == :completed
      end

      # @return [Boolean] whether an exception ended it
      def failed?
        @finished && @status == :failed
      end

      # @return [Boolean] whether it was stopped
      def stopped?
        @finished && @status == :stopped
      end
      alias cancelled? stopped?

      # @return [Boolean] whether its parent does not wait for it
      def transient?
        @transient
      end

      # What came of the task, without waiting and without raising.
      # @return [Object, nil] the block's value, or the exception that it raised; nil while running and when stopped
      def result
        return unless @finished

        @status == :failed ? @result.ask : @result
      end

      # Where its block is at the moment.
      # @return [Array<String>, nil] nil when its block is over
      def backtrace(*arguments)
        @fiber&.backtrace(*arguments)
      end
    end
  end
end
