# frozen_string_literal: true

# Messages a second from samples of a counter, taken every second, for `gyre log status`.

module Gyre
  module Log
    class Rates
      SPANS_S = [1, 10, 60].freeze

      def initialize(now_s, count)
        @samples = [[now_s, count]]
      end

      def sample(now_s, count)
        return if now_s - @samples.last.first < 0.95

        @samples.push([now_s, count])
        @samples.shift if @samples.size > SPANS_S.last + 1
      end

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
