# frozen_string_literal: true

# A run of Gyre::Testing: makes Gyre use the scheduler's virtual clock. Made by Gyre::Testing.run.

require "gyre/offload"
require "gyre/sync/selection"

module Gyre
  module Testing
    # One per thread.
    class Simulation
      class << self
        def current = Thread.current.thread_variable_get(:gyre_simulation)

        def current=(simulation)
          Thread.current.thread_variable_set(:gyre_simulation, simulation)
        end
      end

      attr_reader :random # for random choices other than the order of fibers

      # If `seed` is nil, ready fibers keep their order.
      def initialize(scheduler, seed)
        @scheduler = scheduler
        @random = Random.new(seed || 0)
        scheduler.simulate(seed && (seed & 0xffff_ffff_ffff_ffff))
        @begun_at = now
      end

      def now = @scheduler.virtual_now

      def elapsed = now - @begun_at

      # Runs a block that waits for work of other threads. Until it ends, virtual time does not
      # jump.
      def outside
        @scheduler.outside(1)
        yield
      ensure
        @scheduler.outside(-1)
      end

      module Time
        def now
          simulation = Simulation.current
          simulation ? simulation.now : super
        end
      end

      module Work
        def run(work, **options)
          simulation = Simulation.current
          simulation ? simulation.outside { super } : super
        end
      end

      module Draw
        private

        def shuffled(cases)
          simulation = Simulation.current
          simulation ? cases.shuffle(random: simulation.random) : super
        end
      end

      Clock.singleton_class.prepend(Time)
      Offload.singleton_class.prepend(Work)
      Selection.prepend(Draw)
    end
  end
end
