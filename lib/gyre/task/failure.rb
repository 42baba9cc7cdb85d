# frozen_string_literal: true

# The exception that ended a task, and whether a `wait` has raised it. A failed task holds one as
# its result; Gyre::Task::Unawaited keeps those that no `wait` has raised. Does not refer to its
# task: a forgotten task can be collected while its failure waits to be reported.

module Gyre
  class Task
    class Failure
      attr_reader :error
      attr_reader :parent

      # `what` is the task's name, `waiters` their number at the failure.
      def initialize(run, parent, what, error)
        @run = run
        @parent = parent
        @what = what
        @error = error
        @waiters = 0
        @settled = false
      end

      # The task is over. Gyre.run always asks for the root's failure. A transient task needs no
      # `wait`, and its parent may run for long.
      def expect(waiters, task)
        @waiters = waiters
        return if waiters.positive? || @parent.nil?

        task.transient? ? report : @run.unawaited.add(self, task)
      end

      # Returns the exception to a caller, so that it is not reported any more.
      def ask
        unless @settled
          @settled = true
          @run.unawaited.forget(self)
        end
        @error
      end

      # Called when a waiter left before the failure reached it.
      def give_up(task)
        @waiters -= 1
        @run.unawaited.add(self, task) if @waiters.zero? && !@settled
      end

      # Reports the exception to the scheduler unless a caller has it already.
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
