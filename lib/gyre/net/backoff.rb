# frozen_string_literal: true

# Pauses between tries that fail, each twice as long as the one before, up to the longest. For all
# that tries again. It does not sleep.

module Gyre
  # The failures of one thing, in a row.
  class Backoff
    attr_reader :failures

    # `jitter`: by how much of itself a pause may be longer or shorter, so that not all try at once.
    def initialize(shortest_s, longest_s, jitter: 0)
      @shortest_s, @longest_s, @jitter = shortest_s, longest_s, jitter
      @failures = 0
    end

    # The pause after one more failure.
    def pause_s
      pause_s = [@shortest_s * (2**[@failures, 16].min), @longest_s].min
      @jitter.zero? ? pause_s : (pause_s * (1 - @jitter + (rand * 2 * @jitter))).clamp(@shortest_s, @longest_s)
    end

    # Counts a failure. Returns the pause after it.
    def failed = pause_s.tap { @failures += 1 }

    def succeeded
      @failures = 0
    end
  end
end
