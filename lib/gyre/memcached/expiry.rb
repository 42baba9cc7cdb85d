# frozen_string_literal: true

# Times to live as memcached takes them: seconds up to 30 days, and beyond that a Unix time, into
# which longer ones are converted here. Called by the client for each command that has one.

module Gyre
  module Memcached
    # The times to live of one client.
    class Expiry
      # Above it memcached takes a number for a Unix time.
      INTERVAL_S_LIMIT = 30 * 24 * 60 * 60

      # memcached keeps them in 32 bits with a sign.
      ACCEPTED = (-(2**31)..(2**31) - 1).freeze

      # @param default_s [Numeric, String, nil] for commands without a time to live; nil: for ever
      # @param clock [#call] the present Unix time
      # @raise [ArgumentError] as {#seconds}
      def initialize(default_s = nil, clock: -> { Time.now.to_i })
        @clock = clock
        @default_s = default_s ? whole(default_s) : 0
      end

      # @param ttl [Numeric, #to_i, String, nil] seconds, or a Unix time in the future, also as
      #   decimal digits ("60"); a part of a second is left out, but less than one second is one.
      #   0: for ever, negative: it has expired already, nil: the client's default
      # @return [Integer] what is sent
      # @raise [ArgumentError] when it is no number or memcached would not accept it
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
        seconds.zero? && ttl.respond_to?(:positive?) && ttl.positive? ? 1 : seconds # 0 would be for ever
      rescue ArgumentError, NoMethodError, FloatDomainError
        raise ArgumentError, "a time to live must be a number of seconds, got #{ttl.inspect[0, 80]}"
      end
    end
  end
end
