# frozen_string_literal: true

# A task's way from its first line to its end: runs the block, stops tasks, ends children and parents. Part of
# Gyre::Task; the scheduler's pooled fiber enters at `call`. The picture is in task.rb.

module Gyre
  class Task
    # @api private
    module Lifecycle
      # What the pooled fiber runs.
      def call
        @fiber = Fiber.current
        Thread.current[:gyre_task] = self
        outcome = :stopped # also when the thread is killed, which nothing rescues
        result = nil
        result = @block.call(self)
        outcome = :completed
      rescue Stop
        nil # as asked
      rescue SystemExit, SignalException => error
        @run.leave(error)
      rescue Exception => error # rubocop:disable Lint/RescueException
        outcome = :failed
        result = error
      ensure
        Thread.current[:gyre_task] = nil
        end_body(outcome, result)
      end

      def unstarted?
        @fiber.nil? && @status == :running
      end

      # Stops it for somebody who cannot leave before it is over, and who has another exception to raise than its own.
      def abandon
        stop
        join unless @finished
        report_failure
      end

      # Nobody will ask for its exception any more.
      def report_failure
        @result.report if @status == :failed
      end

      # For Gyre.run, when it is interrupted again: stops also those that are stopping already.
      def stop_again
        family.each { |task| task.interrupt(again: true) }
      end

      protected

      # @return [Boolean] whether the calling fiber is this task's own, and Stop is to be raised here
      def interrupt(again: false)
        return false if @finished || (@stopping && !again)

        @stopping = true
        if unstarted?
          end_body(:stopped, nil)
        elsif Fiber.current.equal?(@fiber)
          return true
        elsif @fiber
          @run.scheduler.fiber_interrupt(@fiber, Stop.new)
        end
        false
      end

      # When the body is over: stops children that nobody needs any more, or finishes if there are none.
      # @return [Task, nil] the parent, when this task has finished
      def end_children
        return if @status == :running

        if children?
          stop_family unless needed_children?
          nil
        else
          finish
          @parent&.disown(self)
          @parent
        end
      end

      private

      # Stops this task and all below it, except for the calling one.
      # @return [Boolean] whether the calling one is among them
      def stop_family
        family.count { |task| task.interrupt }.positive? # protected: no &:interrupt
      end

      def end_body(outcome, result)
        @fiber = nil
        @status = outcome
        @result = result
        stop_family if outcome != :completed && children?
        task = self
        task = task.end_children while task
      end

      def finish
        fail_with(@result) if @status == :failed
        @block = nil
        @finished = true
        tell_waiters
        @run.task_finished(self)
      end
    end
  end
end
