# frozen_string_literal: true

# Gyre::Testing: runs tasks under a clock that jumps instead of sleeping, in a seeded order.
# `require "gyre/testing"`, in tests only. Changes nothing outside of Gyre::Testing.run.

require "gyre/clock"
require "gyre/errors"
require "gyre/offload"
require "gyre/run"
require "gyre/testing/portable"
require "gyre/testing/simulation"

module Gyre
  # For tests of programs that wait.
  module Testing
    # Extends the scheduler: also prints the seed with reported exceptions.
    # @api private
    module Reports
      attr_writer :seed

      def report(...)
        super
        Testing.print_seed(@seed)
      end
    end

    class << self
      # Runs like Gyre.run, without real time for sleeps, timeouts, deadlines and other timers; a
      # seed repeats the random order of ready fibers. Prints the seed if the block raises, or a
      # failure is reported.
      # @param seed [Integer, nil] nil takes GYRE_SEED, or a random one
      # @yieldparam task [Task]
      # @return [Object] the block's value
      # @raise [Exception] what the block raises
      # @raise [Error] on a thread that has a scheduler already
      def run(seed: nil, &block)
        raise Error, "Gyre::Testing.run needs a thread without a scheduler, but this one has a #{Fiber.scheduler.class}" if Fiber.scheduler

        seed ||= Integer(ENV.fetch("GYRE_SEED", "").then { |text| text.empty? ? Random.new_seed % 1_000_000 : text })
        begin
          simulate(seed) { Gyre.run(&block) }
        rescue SystemExit, SignalException
          raise
        rescue Exception => error # rubocop:disable Lint/RescueException -- assertions, too; raised again
          print_seed(seed) unless defined?(Minitest::Skip) && error.is_a?(Minitest::Skip)
          raise
        end
      end

      # @param seed [Integer]
      # @api private
      def print_seed(seed)
        $stderr.write("Gyre::Testing: seed #{seed} (GYRE_SEED=#{seed} repeats this order)\n")
      end

      # @return [Float] the time of deadlines and Gyre::Clock.now, in seconds
      # @raise [Error] outside of {run}
      def now = simulation.now

      # @return [Float] seconds since {run} began, as its tasks see them
      # @raise [Error] outside of {run}
      def elapsed = simulation.elapsed

      private

      def simulation
        Simulation.current || raise(Error, "outside of Gyre::Testing.run there is only the real time")
      end

      def simulate(seed)
        scheduler = Scheduler.new
        scheduler.extend(Reports).seed = seed
        Simulation.current = Simulation.new(scheduler, seed)
        Fiber.set_scheduler(scheduler)
        yield
      ensure
        begin
          Scheduler.leave
        ensure
          Simulation.current = nil
        end
      end
    end
  end
end
