# frozen_string_literal: true

# A task's way from its first line to its end: runs the block, ends children and parents. Part of Gyre::Task; the
# scheduler's pooled fiber enters at `call`. The picture is in task.rb.

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
      rescue Stop => stop
        if stop.deadline&.unheard? # nothing else reports that it took too long
          outcome = :failed
          result = TimeoutError.new(nil, stop.deadline)
          result.set_backtrace(stop.backtrace)
        end
      rescue SystemExit, SignalException => error
        @run.leave(error)
      rescue Exception => error # rubocop:disable Lint/RescueException
        outcome = :failed
        result = error
      ensure
        Thread.current[:gyre_task] = nil
        end_body(outcome, result)
        @run.forker_ended(self)
      end

      # After an exception that came from outside while some task was ending: does what that has left undone, from the leaves up.
      def settle
        family.each { |task| task.settle_alone } # protected: no symbol can call it
      end

      def unstarted?
        @fiber.nil? && @status == :running
      end

      # In a forked child: its fiber is in the parent. It is over, unless the task that forked is below it.
      def stay_behind
        @fiber = nil
        forget_waiters
        @status = :stopped if @status == :running
        return if children?

        @status = :stopped unless @status == :completed
        @result = nil if @status == :stopped
        @block = nil
        @finished = true
        @parent&.disown(self)
      end

      # No `wait` will raise its exception any more.
      def report_failure
        @result.report if @status == :failed
      end

      protected

      # When the body is over: stops children that are needed no longer, or finishes if there are none.
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

      def settle_alone
        count_children
        return if @status == :running
        return stop_family if children?

        finish unless @finished
        @parent.disown(self) if @parent&.children&.include?(self)
      end

      private

      # Thread#kill and Thread#raise may strike at any line, here too, and nothing else would end what is below and above.
      def end_body(outcome, result)
        ended = false
        @fiber = nil
        @status = outcome
        @result = result
        stop_family if children? && (outcome != :completed || @stopping == true) # a Stop may never have been raised
        task = self
        task = task.end_children while task
        ended = true
      ensure
        unless ended
          @status = outcome
          @result ||= result
          @run.root.settle
        end
      end

      def finish
        fail_with(@result) if @status == :failed && !@result.is_a?(Failure)
        @block = nil
        @finished = true
        tell_waiters
        @run.task_finished(self)
      end
    end
  end
end
