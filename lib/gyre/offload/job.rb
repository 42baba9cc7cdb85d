# frozen_string_literal: true

# Blocking work between the waiting fiber and the working thread.

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

      # In the pool's thread, without a scheduler; reaches the fiber only by `unblock`.
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

      # In the fiber: parks until the end; enlarges the pool if no thread takes the work.
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

      # True in its fiber's thread.
      def here? = @scheduler.equal?(Fiber.scheduler)

      def under_way? = @thread&.alive?

      # Its thread stayed behind when the process became a daemon.
      def lost
        @error = Error.new("this work's thread ended when the process became a daemon")
        @done = true
        @scheduler.unblock(self, @fiber) unless @abandoned
      end

      # Prevents its start, or ends its thread.
      def abandon
        @lock.synchronize do
          @abandoned = true
          @thread&.kill
        end
      end
    end
  end
end
