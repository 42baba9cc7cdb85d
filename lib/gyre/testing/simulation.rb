# frozen_string_literal: true

# One run of Gyre::Testing: its clock, and how the rest of Gyre gets to see it. Made by
# Gyre::Testing.run; the clock itself belongs to the scheduler's loop.

require "gyre/clock"
require "gyre/loop/timers"
require "gyre/offload"
require "gyre/sync/selection"

module Gyre
  module Testing
    # The time of a scheduler that simulates. A thread has one at most.
    class Simulation
      class << self
        # @return [Simulation, nil] this thread's
        def current
          Thread.current.thread_variable_get(:gyre_simulation)
        end

        def current=(simulation)
          Thread.current.thread_variable_set(:gyre_simulation, simulation)
        end
      end

      # @return [Random] for what is drawn beside the order of the fibers
      attr_reader :random

      # @param scheduler [Scheduler]
      # @param seed [Integer, nil] nil leaves the ready fibers in their own order
      def initialize(scheduler, seed)
        @scheduler = scheduler
        @random = Random.new(seed || 0)
        scheduler.simulate(seed && (seed & 0xffff_ffff_ffff_ffff))
        @begun_at = now
      end

      # @return [Float]
      def now
        @scheduler.virtual_now
      end

      # @return [Float]
      def elapsed
        now - @begun_at
      end

      # Around work beside the loop: meanwhile time goes at its real speed.
      def outside
        @scheduler.outside(1)
        yield
      ensure
        @scheduler.outside(-1)
      end

      # In front of everything that returns the time.
      module Time
        def now
          simulation = Simulation.current
          simulation ? simulation.now : super
        end
      end

      # In front of Offload.
      module Work
        def run(work, **options)
          simulation = Simulation.current
          simulation ? simulation.outside { super } : super
        end
      end

      # In front of a Gyre.select.
      module Draw
        private

        def shuffled(cases)
          simulation = Simulation.current
          simulation ? cases.shuffle(random: simulation.random) : super
        end
      end

      Clock.singleton_class.prepend(Time)
      Loop::Timers.singleton_class.prepend(Time)
      Offload.singleton_class.prepend(Work)
      Selection.prepend(Draw)
    end
  end
end
