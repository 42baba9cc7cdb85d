# frozen_string_literal: true

# The exception that a task ended with, and whether a `wait` has raised it. A failed task holds one
# as its result; Gyre::Task::Unawaited keeps those that no `wait` has raised. It does not refer to
# its task, so that a task which the program has forgotten can be collected while its failure waits
# to be reported.

module Gyre
  class Task
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

      # A caller takes the exception, so it is not reported any more.
      # @return [Exception]
      def ask
        unless @settled
          @settled = true
          @run.unawaited.forget(self)
        end
        @error
      end

      # A waiter has gone before the failure reached it.
      # @param task [Task] the failed one
      def give_up(task)
        @waiters -= 1
        @run.unawaited.add(self, task) if @waiters.zero? && !@settled
      end

      # Reports to the scheduler, unless a caller has the exception already.
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
