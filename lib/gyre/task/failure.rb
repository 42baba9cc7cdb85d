# frozen_string_literal: true

# The exception that ended a task, and whether a `wait` has raised it; Gyre::Task::Unawaited keeps
# the others. Does not refer to its task, which may be collected meanwhile.

module Gyre
  class Task
    class Failure
      attr_reader :error
      attr_reader :parent

      # `what`: the task's name; `waiters`: their number.
      def initialize(run, parent, what, error)
        @run = run
        @parent = parent
        @what = what
        @error = error
        @waiters = 0
        @settled = false
      end

      # The task is over. Gyre.run asks for the root's failure; transient tasks need no `wait`.
      def expect(waiters, task)
        @waiters = waiters
        return if waiters.positive? || @parent.nil?

        task.transient? ? report : @run.unawaited.add(self, task)
      end

      # Returns the exception, which is then not reported.
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

      # Reports the exception unless a caller has it.
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
