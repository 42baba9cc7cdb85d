# frozen_string_literal: true

# What the server reports in its own log about its clients' faults: at most so many lines a second,
# the rest is counted and reported afterwards, so that no faulty client fills the disk. Connections
# call `add`, the hub's clock `tick`.

require "gyre/net/units"

module Gyre
  module Log
    # Bounded messages.
    class Complaints
      # @param limit [Integer] lines in a second
      # @param room [#call] whether there is room for any: they are bounded when nothing can be
      #   written, too
      # @yieldparam severity [String] "warn" or "error"
      # @yieldparam message [String]
      def initialize(limit, room: -> { true }, &write)
        @limit = limit
        @room = room
        @write = write
        @reported = @left_out = 0
        @second = nil
      end

      # @param peer [#to_s] the client that it is about
      # @param message [String]
      # @param severity [String]
      def add(peer, message, severity = "warn")
        if @reported < @limit && @room.call
          @reported += 1
          @write.call(severity, "#{peer}: #{message}")
        else
          @left_out += 1
        end
      end

      # A new second has the whole limit again.
      #
      # @param now_s [Float] of a monotonic clock
      def tick(now_s)
        return if @second && now_s - @second < 1

        @second = now_s
        @reported = 0
        return unless @left_out.positive? && @room.call

        @write.call("warn", "#{Units.count(@left_out, "more complaint about clients was", "more complaints about clients were")} left out")
        @left_out = 0
      end
    end
  end
end
