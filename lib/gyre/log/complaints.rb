# frozen_string_literal: true

# What the server says in its own log about its clients' faults: at most so many lines a second, the rest is counted and told
# afterwards, so that nobody fills the disk by being wrong. Connections complain, the server's clock calls `tick`.

module Gyre
  module Log
    # Bounded messages.
    class Complaints
      # @param limit [Integer] lines in a second
      # @yieldparam severity [String] "warn" or "error"
      # @yieldparam message [String]
      def initialize(limit, &write)
        @limit = limit
        @write = write
        @said = @unsaid = 0
        @second = nil
      end

      # @param peer [#to_s] whom it is about
      # @param message [String]
      # @param severity [String]
      # @return [void]
      def add(peer, message, severity = "warn")
        if @said < @limit
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
        @write.call("warn", "#{@unsaid} more complaints about clients were left out") if @unsaid.positive?
        @said = @unsaid = 0
      end
    end
  end
end
