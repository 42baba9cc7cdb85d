# frozen_string_literal: true

# Has a loop that is about to sleep looked at shortly after, once: do its fibers wait for each
# other? Made and asked by Scheduler::Portable::Fibers; what is looked at is decided there.

module Gyre
  class Scheduler
    module Portable
      # A look that is due a while after the last switch of fibers.
      class Sweep
        # How long a loop is idle before the look.
        DELAY_S = 0.1

        # @return [Numeric]
        attr_writer :delay_s

        # @param loop [Gyre::Loop::Portable]
        # @yield looks
        # @yieldreturn [Integer] how many switches of fibers there have been by then
        def initialize(loop, &look)
          @loop = loop
          @look = look
          @delay_s = DELAY_S
        end

        # @param switches [Integer] how many there have been; if none since the last time, there is
        #   nothing new to see
        def later(switches)
          return if @timer || @seen == switches

          @timer = @loop.timers.after(@delay_s, -> { sweep })
        end

        # @return [Boolean] whether it has a timer in the loop
        def armed?
          !@timer.nil?
        end

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
