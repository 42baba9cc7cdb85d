# frozen_string_literal: true

# Delays the replacement of dead processes. A first death causes no delay; each further early death
# causes a longer one. Uses no clock.

require "gyre/net/backoff"

module Gyre
  module Cluster
    # All workers share one Respawn, because a fault of the app kills each of them early.
    class Respawn
      # A death is early if the process has lived for fewer seconds.
      SOUND_S = 10
      PAUSES_S = [0.5, 30].freeze

      def initialize
        @backoff = Backoff.new(*PAUSES_S)
        reset
      end

      # Records a death. Returns the seconds until the next start.
      def died(lived_s, now)
        forgive if lived_s >= SOUND_S
        delay = @young ? @backoff.failed : 0
        @young = true
        @at = [@at, now + delay].max
        delay
      end

      def over?(now) = now >= @at

      # Makes the next death count as a first one.
      def reset
        forgive
        @at = 0
      end

      private

      def forgive
        @young = false
        @backoff.succeeded
      end
    end
  end
end
