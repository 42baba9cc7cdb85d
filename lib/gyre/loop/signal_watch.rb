# frozen_string_literal: true

# What Loop#watch_signal holds: a trap that emits a key. Made by Gyre::Loop; an engine's loop calls
# cancel.
require_relative "traps"

module Gyre
  class Loop
    # A signal, and the loop and key that it is delivered to.
    class SignalWatch
      # @return [nil] there is nothing to watch
      attr_reader :io, :interval

      # @param loop [#emit]
      # @param name [String, Symbol, Integer]
      def initialize(loop, key, name)
        @loop = loop
        @key = key
        number = name.is_a?(Integer) ? name : Signal.list.fetch(name.to_s.sub(/\ASIG/, "")) { raise ArgumentError, "unknown signal #{name.inspect}" }
        @name = Signal.signame(number) || number # a name for Signal.trap: JRuby counts signals as no system does
      end

      # Once the key is known to be free. A loop that does not go on in a daemon sees there that it
      # has to start over, and cancels this.
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
