# frozen_string_literal: true

# How many messages came in a second, over the last seconds: from samples of a counter. The server
# samples once a second for `gyre log status`. Without a clock.

module Gyre
  module Log
    # A ring of samples, at most one a second.
    class Rates
      SPANS_S = [1, 10, 60].freeze

      # @param now_s [Float] of a monotonic clock
      # @param count [Integer]
      def initialize(now_s, count)
        @samples = [[now_s, count]]
      end

      def sample(now_s, count)
        return if now_s - @samples.last.first < 0.95

        @samples.push([now_s, count])
        @samples.shift if @samples.size > SPANS_S.last + 1
      end

      # @return [Hash{Integer => Float}] seconds => messages a second, up to the latest sample
      def to_h = SPANS_S.to_h { |span| [span, rate(span)] }

      private

      def rate(span)
        now, count = @samples.last
        before, former = @samples[-(span + 1)] || @samples.first
        now > before ? ((count - former) / (now - before)).round(1) : 0.0
      end
    end
  end
end
