# frozen_string_literal: true

# EventMachine's Pool: resources, and work that waits for one. The work returns a Deferrable; when
# that has succeeded or failed, the resource is free again.
require "gyre/event_machine/queue"

module Gyre
  module EventMachine
    # Resources shared by asynchronous work.
    class Pool
      def initialize
        @resources = Queue.new
        @contents = []
        @removed = []
        @on_error = nil
      end

      # @param resource [Object]
      def add(resource)
        @contents << resource
        requeue(resource)
      end

      # Removes a resource; one in use leaves the pool at the end of its work.
      #
      # @param resource [Object]
      def remove(resource)
        @contents.delete(resource)
        @removed << resource unless @removed.include?(resource)
      end

      # @return [Array] a copy
      def contents = @contents.dup

      # Sets a callback for failed work: it gets the resource, which then does not return to the
      # pool.
      def on_error(*callable, &block)
        @on_error = EventMachine.Callback(*callable, &block)
      end

      # Calls the work with a resource, once there is one.
      #
      # @yieldreturn [Deferrable, Completion]
      def perform(*callable, &block)
        work = EventMachine.Callback(*callable, &block)
        @resources.pop { |resource| @removed.delete(resource) ? perform(work) : process(work, resource) }
      end
      alias reschedule perform

      # @return [Integer] work without a resource yet
      def num_waiting = @resources.num_waiting

      # @param resource [Object]
      # @return [Boolean]
      def removed?(resource) = @removed.include?(resource)

      private

      def process(work, resource)
        outcome = work.call(resource)
        raise ArgumentError, "the work returned #{outcome.class}; it has to return a Deferrable" unless outcome.respond_to?(:errback)

        outcome.callback { requeue(resource) }
        outcome.errback { failed(resource) }
      rescue StandardError
        failed(resource)
        raise
      end

      def requeue(resource) = @resources.push(resource)

      def failed(resource)
        return requeue(resource) unless @on_error

        @contents.delete(resource)
        @on_error.call(resource)
        @removed.delete(resource) # on_error may have removed it, and it never comes back
      end
    end
  end
end
