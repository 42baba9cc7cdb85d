# frozen_string_literal: true

# EventMachine's Pool: work waits for a resource, and returns a Deferrable whose end frees it.
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

      # Removes a resource, which may be in use.
      # @param resource [Object]
      def remove(resource)
        @contents.delete(resource)
        @removed << resource unless @removed.include?(resource)
      end

      # @return [Array] a copy
      def contents = @contents.dup

      # Sets a callback for failed work; it gets the resource, which leaves the pool.
      def on_error(*callable, &block)
        @on_error = EventMachine.Callback(*callable, &block)
      end

      # Calls the work with a free resource, maybe later.
      # @yieldreturn [Deferrable, Completion]
      def perform(*callable, &block)
        work = EventMachine.Callback(*callable, &block)
        @resources.pop { |resource| @removed.delete(resource) ? perform(work) : process(work, resource) }
      end
      alias reschedule perform

      # @return [Integer] work that waits for a resource
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
