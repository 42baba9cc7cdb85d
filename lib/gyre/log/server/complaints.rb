# frozen_string_literal: true

# What the server reports in its own log about its clients' faults: at most so many lines a second, the rest is counted and
# reported afterwards, so that no faulty client fills the disk. Connections complain, the server's clock calls `tick`.

module Gyre
  module Log
    # Bounded messages.
    class Complaints
      # @param limit [Integer] lines in a second
      # @param room [#call] whether there is room for any: they are bounded when nothing can be written, too
      # @yieldparam severity [String] "warn" or "error"
      # @yieldparam message [String]
      def initialize(limit, room: -> { true }, &write)
        @limit = limit
        @room = room
        @write = write
        @said = @unsaid = 0
        @second = nil
      end

      # @param peer [#to_s] the client that it is about
      # @param message [String]
      # @param severity [String]
      # @return [void]
      def add(peer, message, severity = "warn")
        if @said < @limit && @room.call
          @said += 1
          @write.call(severity, "#{peer}: #{message}")
        else
          @unsaid += 1
        end
      end

      # A new second may say as much again.
      #
      # @param now_s [Float] of a monotonic clock
      # @return [void]
      def tick(now_s)
        return if @second && now_s - @second < 1

        @second = now_s
        @said = 0
        return unless @unsaid.positive? && @room.call

        @write.call("warn", "#{@unsaid} more complaints about clients were left out")
        @unsaid = 0
      end
    end
  end
end
