# frozen_string_literal: true

# How tasks are stopped: those below first, each once, and not in the middle of what may not be cut off. Part of
# Gyre::Task. What @stopping holds:
#
#   false ──stop──► true             Stop is on its way, or has been raised
#     │ ▲                            (the end of a defer_stop raises what came meanwhile, and is true then)
#     ▼ │
#   :deferred ──stop──► a Stop       inside of a defer_stop; no task below is stopped either

module Gyre
  class Task
    # @api private
    module Stopping
      # Stops the task and everything below it: each raises {Stop} at its present wait, those below first, once. Its
      # `ensure` blocks run to their end, also when they wait; use {#wait} to know when. A task that is over stays as it is.
      # Stopping oneself, or a task above, raises Stop here.
      #
      # @return [self]
      def stop
        return self if @finished
        return stop_from_elsewhere unless here?

        raise Stop if stop_family

        self
      end
      alias cancel stop

      # Runs a block that a stop must not cut off. One that comes meanwhile, for this task or for one above it, waits: Stop
      # is raised when the block has ended; when the block raises something else, that goes first. May be nested. What is
      # below the task is not stopped either until then. Deadlines that are set in this task, `exit` and a second Interrupt
      # of Gyre.run still get through.
      #
      # @return [Object] the block's value
      def defer_stop
        return yield if @stopping

        @stopping = :deferred
        begin
          yield
        rescue Exception # rubocop:disable Lint/RescueException -- it is raised again
          failed = true
          raise
        ensure
          end_deferral(failed)
        end
      end
      alias defer_cancel defer_stop

      # @return [Boolean] whether a stop has come that waits for the end of a {#defer_stop}
      def stop_deferred?
        @stopping.is_a?(Stop)
      end
      alias cancel_deferred? stop_deferred?

      # Stops it for a caller that cannot leave before it is over, and that has an exception of its own to raise.
      # @api private
      def abandon
        stop
        await_end unless @finished
        report_failure
      end

      # For Gyre.run, when it is interrupted again: stops also those that are stopping already.
      # @api private
      def stop_again
        family.each { |task| task.interrupt(Stop.new, again: true) }
      end

      protected

      # @param stop [Stop] what to raise
      # @param again [Boolean] whether also when it is stopping already
      # @param on_loop [Boolean] whether the caller is a callback, in which nothing may be raised
      # @return [Boolean] whether the calling fiber is this task's own, and the Stop is to be raised here
      def interrupt(stop, again: false, on_loop: false)
        return false if @finished
        return defer(stop) if @stopping && !again

        @stopping = true
        if unstarted?
          end_body(:stopped, nil)
        elsif @fiber
          return true if !on_loop && Fiber.current.equal?(@fiber)

          @run.scheduler.fiber_interrupt(@fiber, stop)
        end
        false
      end

      # Its time, which it has from its parent, is over.
      # @param deadline [Deadline]
      def stop_late(deadline)
        stop_family(Stop.new("the task was stopped by its #{deadline}", deadline), on_loop: true)
      end

      def deferring?
        @stopping && @stopping != true
      end

      # @return [Integer] how many exceptions have been on their way to its block so far: a stop, ends of deadlines
      def interruptions
        count = @stopping == true ? 1 : 0
        deadline = @context&.deadline
        while deadline
          count += 1 if deadline.raising_in?(self)
          deadline = deadline.outer
        end
        count
      end

      private

      # @return [false]
      def defer(stop)
        @stopping = stop if @stopping == :deferred
        false
      end

      def end_deferral(failed)
        stop = @stopping
        return if stop == true # it came through

        @stopping = false
        return if stop == :deferred

        raise stop if stop_family(stop, on_loop: failed)
      end

      # Stops this task and all below it, except for the calling one.
      # @return [Boolean] whether the calling one is among them
      def stop_family(stop = Stop.new, on_loop: false)
        own = false
        family(spare_deferring: true).each do |task|
          own = true if task.interrupt(task.equal?(self) ? stop : Stop.new, on_loop: on_loop)
        end
        own
      end
    end
  end
end
