# frozen_string_literal: true

# One piece of blocking work, between the fiber that waits for it and the thread that does it. Made
# by Gyre::Offload.

module Gyre
  module Offload
    # One piece of work on its way through the pool.
    class Job
      # @param work [#call]
      # @param scheduler [Gyre::Scheduler] the fiber's
      # @param fiber [Fiber]
      def initialize(work, scheduler, fiber)
        @work = work
        @scheduler = scheduler
        @fiber = fiber
        @lock = Thread::Mutex.new
        @thread = nil
      end

      # @return [String] what a fiber waits for, in print_hierarchy
      def label
        "work in a thread"
      end

      # In the pool's thread, which has no scheduler and touches the fiber's only by `unblock`.
      def run
        @lock.synchronize { @abandoned ? return : @thread = Thread.current }
        @started = true
        @value = @work.call
      rescue Exception => error # rubocop:disable Lint/RescueException -- raised again where the value is asked for
        @error = error
      ensure
        @lock.synchronize { @thread = nil }
        @done = true
        @scheduler.unblock(self, @fiber) unless @abandoned
      end

      # In the fiber: parks until the work is done, and has the pool grow when no thread takes it.
      # @param threads [Pool]
      def wait(threads)
        until @done
          patience_s = threads.patience_s unless @started
          threads.relieve unless @scheduler.block(self, patience_s) || @started
        end
      end

      # @return what the work gave, or raises what it raised
      def value
        raise @error if @error

        @value
      end

      # @return [Boolean] whether its fiber is one of this thread's
      def here?
        @scheduler.equal?(Fiber.scheduler)
      end

      # @return [Boolean, nil] whether a thread is at it
      def under_way?
        @thread&.alive?
      end

      # The thread that had begun it is gone.
      def lost
        @error = Error.new("the thread that did this work stayed behind when the process became a daemon")
        @done = true
        @scheduler.unblock(self, @fiber) unless @abandoned
      end

      # It is not needed any longer: it does not start if it has not, and its thread ends if it has.
      def abandon
        @lock.synchronize do
          @abandoned = true
          @thread&.kill
        end
      end
    end
  end
end
