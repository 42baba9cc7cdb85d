# frozen_string_literal: true

# The exception that ended a task, and whether a `wait` has raised it. A failed task holds one as
# its result; Gyre::Task::Unawaited keeps those that no `wait` has raised. It does not refer to its
# task: a forgotten task can be collected while its failure waits to be reported.

module Gyre
  class Task
    class Failure
      attr_reader :error
      attr_reader :parent

      # `what` is the task's name; `waiters` is their number as it fails.
      def initialize(run, parent, what, error)
        @run = run
        @parent = parent
        @what = what
        @error = error
        @waiters = 0
        @settled = false
      end

      # The task is over. The root's failure goes to Gyre.run, which always asks. No `wait` is
      # expected for a transient task, and its parent may go on for long.
      def expect(waiters, task)
        @waiters = waiters
        return if waiters.positive? || @parent.nil?

        task.transient? ? report : @run.unawaited.add(self, task)
      end

      # Returns the exception to a caller; it is not reported any more.
      def ask
        unless @settled
          @settled = true
          @run.unawaited.forget(self)
        end
        @error
      end

      # A waiter left before the failure reached it.
      def give_up(task)
        @waiters -= 1
        @run.unawaited.add(self, task) if @waiters.zero? && !@settled
      end

      # Reports to the scheduler unless a caller has the exception already.
      def report
        return if @settled

        @settled = true
        @run.scheduler.report(@error, self)
      end

      def to_s = @what
      alias inspect to_s
    end
  end
end
