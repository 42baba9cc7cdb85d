# frozen_string_literal: true

# Searches an idle loop once for deadlocks, shortly after its last work. Made and called by
# Scheduler::Portable::Fibers, which decides.

module Gyre
  class Scheduler
    module Portable
      class Sweep
        # Idle time before the check.
        DELAY_S = 0.1

        attr_writer :delay_s

        # The block checks and returns the number of fiber switches by then.
        def initialize(loop, &look)
          @loop = loop
          @look = look
          @delay_s = DELAY_S
        end

        # Skips the search if `switches` is unchanged.
        def later(switches)
          return if @timer || @seen == switches

          @timer = @loop.timers.after(@delay_s, -> { sweep })
        end

        def armed? = !@timer.nil?

        # A forked child has no such timer.
        def forget
          @timer = @seen = nil
        end

        private

        def sweep
          @timer.cancel
          @timer = nil
          @seen = @look.call
        end
      end
    end
  end
end
