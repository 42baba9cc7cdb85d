# frozen_string_literal: true

# Looks once for deadlocks, shortly after an idle loop's last work. Called by
# Scheduler::Portable::Fibers.

module Gyre
  class Scheduler
    module Portable
      class Sweep
        # Idle time before the check.
        DELAY_S = 0.1

        attr_writer :delay_s

        # The block checks and returns the number of switches.
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

        # In a forked child.
        def forget = @timer = @seen = nil

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
