# frozen_string_literal: true

# Delays the replacement of dead processes: none at first, then more after each early death. Uses no
# clock.

require "gyre/net/backoff"

module Gyre
  module Web
    module Cluster
      # One for all workers, as a fault kills each of them early; another for the mold.
      class Respawn
        # Seconds after which a process counts as sound.
        SOUND_S = 10
        PAUSES_S = [0.5, 30].freeze

        def initialize
          @backoff = Backoff.new(*PAUSES_S)
          reset
        end

        # Returns seconds until the next start.
        def died(lived_s, now)
          forgive if lived_s >= SOUND_S
          delay = @young ? @backoff.failed : 0
          @young = true
          @at = [@at, now + delay].max
          delay
        end

        def over?(now) = now >= @at

        # Treats the next death as the first.
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
end
