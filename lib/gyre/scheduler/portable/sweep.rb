# frozen_string_literal: true

# Looks once for deadlocks in an idle loop, shortly after its last work. Made and asked by
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

        # With unchanged `switches` there is nothing new to see.
        def later(switches)
          return if @timer || @seen == switches

          @timer = @loop.timers.after(@delay_s, -> { sweep })
        end

        def armed? = !@timer.nil?

        # In a forked child the timer is gone.
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
