# frozen_string_literal: true

# The exception that a task ended with, and whether anybody has asked for it. A failed task holds one as its result;
# Gyre::Task::Unawaited keeps those that nobody has asked for. It does not know its task, so that a task which the
# program has forgotten can be collected while its failure waits to be reported.

module Gyre
  class Task
    # @api private
    class Failure
      # @return [Exception]
      attr_reader :error
      # @return [Task, nil] the failed task's parent
      attr_reader :parent

      # @param run [Run]
      # @param parent [Task, nil]
      # @param what [String] the task's name, for the report
      # @param error [Exception]
      # @param waiters [Integer] how many are waiting for the task as it fails
      def initialize(run, parent, what, error, waiters)
        @run = run
        @parent = parent
        @what = what
        @error = error
        @waiters = waiters
        @settled = false
      end

      # Somebody takes the exception: from now on it is his.
      # @return [Exception]
      def ask
        unless @settled
          @settled = true
          @run.unawaited.forget(self)
        end
        @error
      end

      # One who was waiting went away before he was told.
      # @param task [Task] the failed one
      def give_up(task)
        @waiters -= 1
        @run.unawaited.add(self, task) if @waiters.zero? && !@settled
      end

      # Tells the scheduler, unless somebody has the exception already.
      def report
        return if @settled

        @settled = true
        @run.scheduler.report(@error, self)
      end

      # @return [String] for example: task "fetch"
      def to_s
        @what
      end
      alias inspect to_s
    end
  end
end
