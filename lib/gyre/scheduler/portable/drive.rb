# frozen_string_literal: true

# A fiber that drives the loop until a condition is true. Made by Scheduler::Portable::Fibers#drive; there may be several, of which
# the last one is at work.

module Gyre
  class Scheduler
    module Portable
      # The fiber that drives, the strand below it, whether it is a parked fiber that drives for want of another driver, and
      # what it waits for. Overdue: it began because the budget was spent, and the kernel is asked before its own fiber goes on.
      Drive = Struct.new(:fiber, :base, :parked, :condition, :overdue) do
        def done?
          condition.call(self)
        end

        # Asked on another fiber: what the question raises, the driver itself shall find.
        def fulfilled?
          done?
        rescue StandardError
          true
        end
      end
    end
  end
end
