# frozen_string_literal: true

# Waiting for a task: by fibers of its own thread, which is cheap, and by other threads. Part of Gyre::Task.

module Gyre
  class Task
    # @api private
    module Waiting
      # Guards @waiters_elsewhere of all tasks; needed only when threads wait for each other's tasks.
      ELSEWHERE = Thread::Mutex.new
      private_constant :ELSEWHERE

      private

      # Parks the calling fiber until the task is over.
      def join
        refuse_deadlock
        fiber = Fiber.current
        @waiters ? @waiters << fiber : @waiters = [fiber]
        told = false
        begin
          @run.scheduler.block(self, nil) until @finished
          told = true
        ensure
          leave_waiters(fiber) unless told
        end
      end

      # One who waits was stopped, or ran out of time.
      def leave_waiters(fiber)
        if @finished
          @result.give_up(self) if @status == :failed
        else
          @waiters.delete_at(@waiters.index(fiber))
        end
      end

      def refuse_deadlock
        task = Task.current?
        while task
          raise Error, "#{task.label} cannot end before the one that waits for it here" if task.equal?(self)

          task = task.parent
        end
      end

      # Another thread's fiber, or a thread without a scheduler.
      def join_from_elsewhere
        queue = Thread::Queue.new
        ELSEWHERE.synchronize { (@waiters_elsewhere ||= []) << queue }
        told = false
        begin
          queue.pop unless @finished # in this order: the task looks for waiters after it has finished
          told = true
        ensure
          leave_waiters_elsewhere(queue) unless told
        end
      end

      def leave_waiters_elsewhere(queue)
        ELSEWHERE.synchronize { @waiters_elsewhere&.delete(queue) }
        @result.give_up(self) if @finished && @status == :failed
      end

      def stop_from_elsewhere
        @run.stop_later(self)
        self
      end

      # The root's failure goes to Gyre.run, which always asks.
      def fail_with(error)
        waiting = (@waiters ? @waiters.size : 0) + (@waiters_elsewhere ? @waiters_elsewhere.size : 0)
        @result = Failure.new(@run, @parent, label, error, waiting)
        @run.unawaited.add(@result, self) if waiting.zero? && @parent
      end

      def tell_waiters
        waiters, @waiters = @waiters, nil
        waiters&.each { |fiber| @run.scheduler.unblock(self, fiber) }
        return unless @waiters_elsewhere

        ELSEWHERE.synchronize do
          @waiters_elsewhere.each { |queue| queue.push(nil) }
          @waiters_elsewhere = nil
        end
      end
    end
  end
end
