# frozen_string_literal: true

# Converts times to live to memcached's form: seconds up to 30 days, beyond that Unix time.

module Gyre
  module Memcached
    class Expiry
      # Larger numbers are Unix time.
      INTERVAL_S_LIMIT = 30 * 24 * 60 * 60

      # Signed 32-bit integers.
      ACCEPTED = (-(2**31)..(2**31) - 1).freeze

      # `default_s` nil: no expiry; `clock` returns Unix time.
      def initialize(default_s = nil, clock: -> { Time.now.to_i })
        @clock = clock
        @default_s = default_s ? whole(default_s) : 0
      end

      # Takes seconds, a future Unix time, or digits; 0: no expiry; negative: expired; nil: the
      # default. Raises ArgumentError.
      def seconds(ttl)
        ttl = ttl.nil? ? @default_s : whole(ttl)
        if ttl > INTERVAL_S_LIMIT
          now = @clock.call
          ttl += now if ttl <= now
        end
        return ttl if ACCEPTED.cover?(ttl)

        raise ArgumentError, "a time to live must be a number of seconds or a Unix time up to #{ACCEPTED.end}, got #{ttl}"
      end

      private

      def whole(ttl)
        return ttl if ttl.is_a?(Integer)
        return Integer(ttl, 10) if ttl.is_a?(String)

        seconds = ttl.to_i
        seconds.zero? && ttl.respond_to?(:positive?) && ttl.positive? ? 1 : seconds # 0 means without end
      rescue ArgumentError, NoMethodError, FloatDomainError
        raise ArgumentError, "a time to live must be a number of seconds, got #{ttl.inspect[0, 80]}"
      end
    end
  end
end
