# frozen_string_literal: true

# Computes the pause after a failure: twice the previous pause, up to a maximum. Never sleeps.

module Gyre
  # Counts consecutive failures.
  class Backoff
    attr_reader :failures

    # `jitter`: fraction by which a pause varies at random, so that clients do not retry together.
    def initialize(shortest_s, longest_s, jitter: 0)
      @shortest_s, @longest_s, @jitter = shortest_s, longest_s, jitter
      @failures = 0
    end

    # Returns the pause after one more failure.
    def pause_s
      pause_s = [@shortest_s * (2**[@failures, 16].min), @longest_s].min
      @jitter.zero? ? pause_s : (pause_s * (1 - @jitter + (rand * 2 * @jitter))).clamp(@shortest_s, @longest_s)
    end

    # Counts a failure and returns the pause.
    def failed = pause_s.tap { @failures += 1 }

    def succeeded = @failures = 0
  end
end
