# frozen_string_literal: true

# EventMachine's Channel: any thread pushes, each subscriber is called on the reactor's thread.
require "gyre/event_machine/callback"

module Gyre
  module EventMachine
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
  end
end
