# frozen_string_literal: true

# The time of deadlines, timeouts and periods.

module Gyre
  # Monotonic seconds.
  module Clock
    # Too short for another sleep.
    SHORT_S = 1e-6
    private_constant :SHORT_S

    # @return [Float] seconds since an arbitrary moment
    def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # Sleeps; no unblock ends it early.
    # @param at [Numeric] by {now}; a past time yields to ready fibers
    # @return [void]
    def self.sleep_until(at)
      left = at - now
      Kernel.sleep(left.positive? ? left : 0)
      Kernel.sleep(left) while (left = at - now) > SHORT_S
    end

    # Yields until the time is over; `break` or `return` leaves.
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
    # @return [Float] seconds of the block
    def self.measure
      start = now
      yield
      now - start
    end
  end
end
