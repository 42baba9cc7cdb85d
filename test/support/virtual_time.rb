# frozen_string_literal: true

# Loaded by a program that a test runs (`ruby -rsupport/virtual_time`): each Gyre.run in it sleeps
# on a clock that jumps, with the ready fibers in their own order, so that what it prints, and when,
# does not depend on how busy the machine is. Not for programs that wait for threads or other
# processes, whose time is real.
require "support/portable_simulation"

module GyreTest
  # Where a program meets the time.
  module VirtualTime
    @ahead_s = 0

    class << self
      def ahead_s
        simulation = Gyre::Testing::Simulation.current
        @ahead_s + (simulation ? simulation.now - real_now : 0)
      end

      # When a run is over: what it has jumped stays.
      def stay_ahead
        @ahead_s = ahead_s
      end

      def real_now
        Process.clock_gettime_outside(Process::CLOCK_MONOTONIC)
      end
    end

    # In front of Gyre.run.
    module Run
      def run(...)
        return super if Fiber.scheduler

        begin
          scheduler = Gyre::Scheduler.new
          Gyre::Testing::Simulation.current = Gyre::Testing::Simulation.new(scheduler, nil)
          Fiber.set_scheduler(scheduler)
          super
        ensure
          Fiber.set_scheduler(nil)
          VirtualTime.stay_ahead
          Gyre::Testing::Simulation.current = nil
        end
      end
    end

    # In front of Process.clock_gettime.
    module Clock
      def clock_gettime(clock, *unit)
        clock == Process::CLOCK_MONOTONIC && unit.empty? ? super + VirtualTime.ahead_s : super
      end
    end

    # In front of Time.now.
    module WallClock
      def now(...)
        super + VirtualTime.ahead_s
      end
    end

    Process.singleton_class.alias_method(:clock_gettime_outside, :clock_gettime)
    Gyre.singleton_class.prepend(Run)
    Process.singleton_class.prepend(Clock)
    Time.singleton_class.prepend(WallClock)
  end
end
