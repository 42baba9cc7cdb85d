# frozen_string_literal: true

# Pauses between failing attempts: each is twice as long as the previous, up to a maximum. Used by
# all parts that retry. It does not sleep.

module Gyre
  # Counts consecutive failures of one thing.
  class Backoff
    attr_reader :failures

    # `jitter` is the share by which a pause may vary, so that not all retry at once.
    def initialize(shortest_s, longest_s, jitter: 0)
      @shortest_s, @longest_s, @jitter = shortest_s, longest_s, jitter
      @failures = 0
    end

    # Returns the pause after one more failure.
    def pause_s
      pause_s = [@shortest_s * (2**[@failures, 16].min), @longest_s].min
      @jitter.zero? ? pause_s : (pause_s * (1 - @jitter + (rand * 2 * @jitter))).clamp(@shortest_s, @longest_s)
    end

    # Counts a failure. Records a failure and returns the pause.
    def failed = pause_s.tap { @failures += 1 }

    def succeeded
      @failures = 0
    end
  end
end
