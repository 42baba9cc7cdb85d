# frozen_string_literal: true

# EventMachine's Queue, Channel and Pool. Any thread may push; the reactor's thread calls back.

module Gyre
  module EventMachine
    # A queue between threads and the reactor.
    class Queue
      def initialize
        @items = []
        @waiting = []
      end

      # Calls back in the reactor's thread as soon as there is an item.
      # @return [nil]
      def pop(*callable, &block)
        callback = EventMachine.Callback(*callable, &block)
        EventMachine.schedule { @items.empty? ? @waiting.push(callback) : callback.call(@items.shift) }
        nil
      end

      # @param items [Array]
      def push(*items)
        EventMachine.schedule do
          @items.concat(items)
          @waiting.shift.call(@items.shift) until @waiting.empty? || @items.empty?
        end
      end
      alias << push

      # @return [Boolean]
      def empty? = @items.empty?

      # @return [Integer]
      def size = @items.size

      # @return [Integer] callbacks that wait
      def num_waiting = @waiting.size
    end

    # Passes each message to all subscribers.
    class Channel
      def initialize
        @subscribers = {}
        @last_id = 0
      end

      # @return [Integer]
      def num_subscribers = @subscribers.size

      # @return [Integer] for {#unsubscribe}
      def subscribe(*callable, &block)
        callback = EventMachine.Callback(*callable, &block)
        id = @last_id += 1
        EventMachine.schedule { @subscribers[id] = callback }
        id
      end

      # @param id [Integer]
      def unsubscribe(id) = EventMachine.schedule { @subscribers.delete(id) }

      # @param items [Array] messages, in order
      def push(*items) = EventMachine.schedule { items.each { |item| @subscribers.values.each { |callback| callback.call(item) } } }
      alias << push

      # Calls back with the next message only.
      def pop(*callable, &block)
        callback = EventMachine.Callback(*callable, &block)
        EventMachine.schedule do
          id = subscribe do |*items|
            unsubscribe(id)
            callback.call(*items)
          end
        end
      end
    end

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
      def on_error(*callable, &block) = @on_error = EventMachine.Callback(*callable, &block)

      # Calls the work as soon as a resource is free.
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
