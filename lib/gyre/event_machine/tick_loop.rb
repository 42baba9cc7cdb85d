# frozen_string_literal: true

# EventMachine's TickLoop: calls back in each tick, until the callback returns :stop.
require "gyre/event_machine/callback"

module Gyre
  module EventMachine
    # Makes and starts a {TickLoop}.
    # @return [TickLoop]
    def self.tick_loop(*callable, &block) = TickLoop.new(*callable, &block).tap(&:start)

    # Calls back in each tick.
    class TickLoop
      def initialize(*callable, &block)
        @tick = EventMachine.Callback(*callable, &block)
        @on_stop = []
        @stopped = true
      end

      # Calls back at the next stop; at once if stopped.
      def on_stop(*callable, &block)
        callback = EventMachine.Callback(*callable, &block)
        @stopped ? callback.call : @on_stop << callback
      end

      # Calls the callbacks of {#on_stop}.
      def stop
        @stopped = true
        @on_stop.shift.call until @on_stop.empty?
      end

      # @return [Boolean]
      def stopped? = @stopped

      # @raise [ArgumentError] if it runs
      def start
        raise ArgumentError, "the tick loop runs already" unless @stopped

        @stopped = false
        schedule
      end

      private

      def schedule
        EventMachine.next_tick do
          next if @stopped

          @tick.call == :stop ? stop : schedule
        end
      end
    end
  end
end
