# frozen_string_literal: true

# The time that deadlines, timeouts and periods are measured by. Everything in layer 2 that asks for the time asks here,
# so that there is one place where it comes from.

module Gyre
  # Seconds that only ever go forward, whatever happens to the time of day.
  module Clock
    # @return [Float] seconds since some moment in the past; the differences are what counts
    def self.now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # @yield
    # @return [Float] how many seconds the block took
    def self.measure
      start = now
      yield
      now - start
    end
  end
end
