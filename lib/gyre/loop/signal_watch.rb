# frozen_string_literal: true

# Loop#watch_signal: a trap that emits a key.
require_relative "traps"

module Gyre
  class Loop
    class SignalWatch
      attr_reader :io, :interval

      def initialize(loop, key, name)
        @loop = loop
        @key = key
        number = name.is_a?(Integer) ? name : Signal.list.fetch(name.to_s.sub(/\ASIG/, "")) { raise ArgumentError, "unknown signal #{name.inspect}" }
        @name = Signal.signame(number) || number # a name for Signal.trap: JRuby numbers signals differently
      end

      # Called once the key is free. Cancels itself in a daemon whose loop starts over.
      def start
        @listener = Traps.add(@name, moved: -> { @loop.watching?(@key) }) { @loop.emit(@key) }
      rescue ArgumentError, SystemCallError => error
        @loop.unwatch(@key)
        raise ArgumentError, "watch signal #{@name}: #{error.message}"
      end

      def cancel
        Traps.remove(@listener) if @listener
      end
    end
  end
end
