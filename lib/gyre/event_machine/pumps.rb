# frozen_string_literal: true

# The tasks that take a reactor's events and run its callbacks. One pump works while another stands
# by and takes over when a callback parks; the parked pump ends with that callback.

module Gyre
  module EventMachine
    class Pumps
      # Number of pumps that may wait for events.
      IDLE = 2

      # The first exception that `finish` was given.
      attr_reader :error

      def initialize(task, reactor)
        @task = task
        @reactor = reactor
        @tasks = []
        @waiting = 0
        @end = Thread::Queue.new
        @error = nil
      end

      # Returns after `finish`.
      def run
        IDLE.times { start }
        @end.pop
      end

      def finish(error = nil)
        @error ||= error
        @end.close
      end

      # Ends parked callbacks, too.
      def stop
        @end.close
        @tasks.dup.each(&:stop)
      end

      private

      def start = @tasks << @task.async("EventMachine's callbacks") { pump }

      def pump
        nil while take
      ensure
        @tasks.delete(Task.current)
      end

      # Returns nil at the end. By itself, as YJIT does not compile a loop that runs already.
      def take
        return if @end.closed? || @waiting >= IDLE

        event = await_event
        start if @waiting.zero?
        @reactor.dispatch(event)
        true
      end

      def await_event
        @waiting += 1
        @reactor.next_event
      ensure
        @waiting -= 1
      end
    end
  end
end
