# frozen_string_literal: true

# Limits the replacement of dead processes: at once the first time, then later after each early
# death. Uses no process and no clock.

require "gyre/net/backoff"

module Gyre
  module Web
    module Cluster
      # One object for all workers, as a fault that kills one early kills the others too; another
      # for the mold.
      class Respawn
        # A process that lived this long counts as sound.
        SOUND_S = 10
        PAUSES_S = [0.5, 30].freeze
        private_constant :PAUSES_S

        def initialize
          @backoff = Backoff.new(*PAUSES_S)
          reset
        end

        # Records an unwanted death. Returns seconds until the next start.
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
