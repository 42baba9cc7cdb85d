# frozen_string_literal: true

# A piece of blocking work, shared by the waiting fiber and the working thread.

module Gyre
  module Offload
    class Job
      def initialize(work, scheduler, fiber)
        @work = work
        @scheduler = scheduler
        @fiber = fiber
        @lock = Thread::Mutex.new
        @thread = nil
      end

      def label = "work in a thread"

      # Called in the pool's thread, which has no scheduler and reaches the fiber only by `unblock`.
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

      # Called in the fiber: parks it until the work has ended. Enlarges the pool if no thread takes
      # the work.
      def wait(threads)
        until @done
          patience_s = threads.patience_s unless @started
          threads.relieve unless @scheduler.block(self, patience_s) || @started
        end
      end

      def value
        raise @error if @error

        @value
      end

      # True if called in the thread of the waiting fiber.
      def here? = @scheduler.equal?(Fiber.scheduler)

      def under_way? = @thread&.alive?

      # Called if the working thread was lost when the process became a daemon; the wait raises.
      def lost
        @error = Error.new("this work's thread ended when the process became a daemon")
        @done = true
        @scheduler.unblock(self, @fiber) unless @abandoned
      end

      # Prevents the work's start, or ends the working thread.
      def abandon
        @lock.synchronize do
          @abandoned = true
          @thread&.kill
        end
      end
    end
  end
end
