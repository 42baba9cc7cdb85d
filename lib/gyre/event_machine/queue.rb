# frozen_string_literal: true

# EventMachine's Queue: any thread pushes and pops; callbacks run on the reactor's thread.
require "gyre/event_machine/callback"

module Gyre
  module EventMachine
    # A queue between threads and the reactor.
    class Queue
      def initialize
        @items = []
        @waiting = []
      end

      # Calls back on the reactor's thread with an item, maybe later.
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
  end
end
