# frozen_string_literal: true

# The time that deadlines, timeouts and periods are measured by. Everything in layer 2 that asks for
# the time asks here, so that there is one place where it comes from.

module Gyre
  # Seconds that only ever go forward, whatever happens to the time of day.
  module Clock
    # Too short to be slept again for.
    SHORT_S = 1e-6
    private_constant :SHORT_S

    # @return [Float] seconds since some moment in the past; the differences are what counts
    def self.now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # Sleeps; no unblock makes it end early.
    # @param at [Numeric] a time of {now}; in the past: lets the others that are ready run
    # @return [void]
    def self.sleep_until(at)
      left = at - now
      Kernel.sleep(left.positive? ? left : 0)
      Kernel.sleep(left) while (left = at - now) > SHORT_S
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
