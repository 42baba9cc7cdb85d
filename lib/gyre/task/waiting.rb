# frozen_string_literal: true

# Waiting for a task: by fibers of its own thread, which is cheap, and by other threads. Part of Gyre::Task.

require "gyre/clock"
require "gyre/sync/waiter"

module Gyre
  class Task
    # @api private
    module Waiting
      # Waits until the task is over, and leaves its exception to others.
      # @param at [Float] until this time of Clock.now at most
      # @return [Boolean] whether it is over
      def join_until(at)
        over = @finished || await_end(at - Clock.now)
        @result.give_up(self) if over && @status == :failed
        over
      end

      # Has `listener.wake` called when the task is over; at once if it is. From any thread.
      # @param listener [#wake]
      def listen(listener)
        @run.elsewhere.synchronize { (@waiters_elsewhere ||= []) << listener }
        listener.wake if @finished # in this order: the task looks for listeners after it has finished
      end

      # Ends a `listen`, and leaves the task's exception to others.
      # @param listener [#wake]
      def unlisten(listener)
        @run.elsewhere.synchronize { @waiters_elsewhere&.delete(listener) }
        @result.give_up(self) if @finished && @status == :failed
      end

      # In a forked child: the waiters are in the parent.
      # @api private
      def forget_waiters
        @waiters = @waiters_elsewhere = nil
      end

      private

      # Parks the caller until the task is over.
      # @param timeout [Numeric, nil] seconds
      # @return [Boolean] whether it is over
      def await_end(timeout = nil)
        return await_from_elsewhere(timeout) unless here?

        refuse_deadlock
        caller = Task.current?
        expected = caller&.interruptions
        fiber = Fiber.current
        @waiters ? @waiters << fiber : @waiters = [fiber]
        told = false
        begin
          over = park_until_told(timeout)
          Kernel.sleep while caller && caller.interruptions > expected # this task was stopped first, the caller is next
          told = over
        ensure
          leave_waiters(fiber) unless told
        end
      end

      def park_until_told(timeout)
        deadline = timeout && (Clock.now + timeout)
        until @finished
          left = deadline && (deadline - Clock.now)
          return false if left && left <= 0

          @run.scheduler.block(self, left)
        end
        true
      end

      # A waiter was stopped, or its time is over.
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
      def await_from_elsewhere(timeout)
        waiter = Waiter.new(self)
        told = false
        begin
          listen(waiter)
          told = waiter.park(timeout)
        ensure
          unlisten(waiter) unless told
        end
      end

      def stop_from_elsewhere
        @run.stop_later(self)
        self
      end

      # The root's failure goes to Gyre.run, which always asks. No `wait` is expected for a transient task, and its
      # parent may go on for long.
      def fail_with(error)
        waiting = (@waiters ? @waiters.size : 0) + (@waiters_elsewhere ? @waiters_elsewhere.size : 0)
        @result = Failure.new(@run, @parent, label, error, waiting)
        return unless waiting.zero? && @parent

        @transient ? @result.report : @run.unawaited.add(@result, self)
      end

      def tell_waiters
        waiters, @waiters = @waiters, nil
        waiters&.each { |fiber| @run.scheduler.unblock(self, fiber) }
        return unless @waiters_elsewhere

        listeners = @run.elsewhere.synchronize { @waiters_elsewhere.tap { @waiters_elsewhere = nil } }
        listeners.each(&:wake) # without the lock: it may have to wait for another one
      end
    end
  end
end
