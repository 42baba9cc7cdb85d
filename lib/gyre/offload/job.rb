# frozen_string_literal: true

# A piece of blocking work, between the waiting fiber and the working thread. Made by Gyre::Offload.

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

      # Runs in the pool's thread, which has no scheduler and reaches the fiber only by `unblock`.
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

      # Runs in the fiber: parks until the work is done, and enlarges the pool if no thread takes
      # it.
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

      # True if its fiber belongs to this thread.
      def here? = @scheduler.equal?(Fiber.scheduler)

      def under_way? = @thread&.alive?

      # Fails the job: its thread stayed behind when the process became a daemon.
      def lost
        @error = Error.new("the thread that did this work stayed behind when the process became a daemon")
        @done = true
        @scheduler.unblock(self, @fiber) unless @abandoned
      end

      # Called when it is not needed any more: it does not start, or its thread ends.
      def abandon
        @lock.synchronize do
          @abandoned = true
          @thread&.kill
        end
      end
    end
  end
end
