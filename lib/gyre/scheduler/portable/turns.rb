# frozen_string_literal: true

# Parts of a turn of Scheduler::Portable::Fibers: its slice, the questions to waiting fibers, the
# search for deadlocks.

module Gyre
  class Scheduler
    module Portable
      # What fibers may do before the kernel is asked again.
      class Slice
        # Fibers run between two calls of the kernel.
        BUDGET = 256
        # Seconds that a fiber may run without a wait; calls between two clock reads.
        LIMIT_S = 0.004
        CLOCK_INTERVAL = 4

        attr_reader :switches

        def initialize(loop)
          @loop = loop
          @switches = @unwaited = 0
          refill
        end

        def refill = @budget = BUDGET

        def left? = @budget.positive?

        def spend = @budget = 0

        def switch
          @budget -= 1
          @switches += 1
        end

        # True once a fiber without waits has run long enough.
        def over?
          @unwaited += 1
          (@unwaited % CLOCK_INTERVAL).zero? && @loop.since_poll_s > LIMIT_S
        end
      end

      # A block for another fiber to run when entered, before it waits again. Made by
      # Scheduler::Portable::Fibers#ask.
      class Question
        attr_reader :asker

        def initialize(asker, block)
          @asker = asker
          @block = block
        end

        # The block's exception (such as Interrupt) is raised in the asking fiber.
        def answer
          @answer = @block.call
        rescue Exception => error # rubocop:disable Lint/RescueException -- raised again by `value`
          @error = error
        end

        # Returns nil without an answer.
        def value
          raise @error if @error

          @answer
        end
      end

      # Looks once for deadlocks, shortly after an idle loop's last work.
      class Sweep
        # Idle time before the check.
        DELAY_S = 0.1

        attr_writer :delay_s
        attr_accessor :suspicious

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
