# frozen_string_literal: true

# The exception that ended a task. Knows whether a `wait` has raised it; Gyre::Task::Unawaited keeps
# failures that no `wait` has raised. Does not refer to the task, so that the task can be collected.

module Gyre
  class Task
    class Failure
      attr_reader :error
      attr_reader :parent

      # `what`: the task's label.
      def initialize(run, parent, what, error)
        @run = run
        @parent = parent
        @what = what
        @error = error
        @waiters = 0
        @settled = false
      end

      # Called when the task is over. If no caller waits, reports a transient task's failure at
      # once, and keeps others for later. Does nothing for the root: Gyre.run asks for its failure.
      def expect(waiters, task)
        @waiters = waiters
        return if waiters.positive? || @parent.nil?

        task.transient? ? report : @run.unawaited.add(self, task)
      end

      # Returns the exception, and ends its report.
      def ask
        unless @settled
          @settled = true
          @run.unawaited.forget(self)
        end
        @error
      end

      # Called when a waiter leaves before it gets the failure.
      def give_up(task)
        @waiters -= 1
        @run.unawaited.add(self, task) if @waiters.zero? && !@settled
      end

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
