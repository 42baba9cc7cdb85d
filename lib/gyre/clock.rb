# frozen_string_literal: true

# The clock for deadlines, timeouts and periods.

module Gyre
  # Monotonic seconds.
  module Clock
    # Longest remaining time for which {sleep_until} does not sleep again.
    SHORT_S = 1e-6
    private_constant :SHORT_S

    # @return [Float] seconds since an arbitrary moment
    def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # Sleeps until a time, even if an unblock ends a sleep early.
    # @param at [Numeric] end of the sleep by {now}; a past time only yields to ready fibers
    # @return [void]
    def self.sleep_until(at)
      left = at - now
      Kernel.sleep(left.positive? ? left : 0)
      Kernel.sleep(left) while (left = at - now) > SHORT_S
    end

    # Yields repeatedly until the time is over; `break` or `return` leaves earlier.
    # @param timeout [Numeric, nil] seconds; nil: no limit
    # @yieldparam left [Numeric, nil] seconds
    # @return [nil]
    def self.within(timeout)
      at = timeout && (now + timeout)
      left = timeout
      until left && left <= 0
        yield left
        left = at && (at - now)
      end
    end

    # @yield
    # @return [Float] seconds that the block took
    def self.measure
      start = now
      yield
      now - start
    end
  end
end
