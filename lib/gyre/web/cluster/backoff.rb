# frozen_string_literal: true

# How long the supervisor waits before it replaces a process that has died: not at all the first
# time, then longer each time that the successor dies young. It holds no process and no clock.

module Gyre
  module Web
    module Cluster
      # One for the workers together, for what kills one of them young kills the others as well; and
      # one for the mold.
      class Backoff
        # A process that lived for so long counts as sound, in seconds.
        SOUND_S = 10
        FIRST_S = 0.5
        LONGEST_S = 30

        def initialize
          @deaths = 0
          @at = 0
        end

        # A process has died that was to live.
        #
        # @param lived_s [Numeric] for how long it has
        # @param now [Numeric] seconds on any clock
        # @return [Numeric] seconds until the next one is started
        def died(lived_s, now)
          @deaths = 0 if lived_s >= SOUND_S
          delay = @deaths.zero? ? 0 : [FIRST_S * (2**[@deaths - 1, 10].min), LONGEST_S].min
          @deaths += 1
          @at = [@at, now + delay].max
          delay
        end

        # @param now [Numeric]
        # @return [Boolean] whether a process may be started
        def over?(now) = now >= @at

        # The next death counts as the first one.
        # @return [void]
        def reset
          @deaths = 0
          @at = 0
        end
      end
    end
  end
end
