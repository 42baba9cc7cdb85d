# frozen_string_literal: true

# Gyre::Testing: runs tasks in a seeded order, under a clock that jumps instead of sleeping. Only
# tests require it.

require "gyre/run"
require "gyre/testing/simulation"

module Gyre
  # For tests of programs that wait.
  module Testing
    # Prints the seed after each reported exception.
    # @api private
    module Reports
      attr_writer :seed

      def report(...)
        super
        Testing.print_seed(@seed)
      end
    end

    class << self
      # Runs like Gyre.run, but sleeps and timers take no real time. A seed repeats the order of
      # ready fibers, and is printed after a failure.
      # @param seed [Integer, nil] nil: GYRE_SEED, or random
      # @yieldparam task [Task]
      # @return [Object] the block's value
      # @raise [Exception] the block's
      # @raise [Error] the thread has a scheduler
      # @raise [ExtensionRequired] on the portable engine
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
      def print_seed(seed) = $stderr.write("Gyre::Testing: seed #{seed} (GYRE_SEED=#{seed} repeats this order)\n")

      # @return [Float] seconds, as of Gyre::Clock.now
      # @raise [Error] outside of {run}
      def now = simulation.now

      # @return [Float] seconds since {run} began
      # @raise [Error] outside of {run}
      def elapsed = simulation.elapsed

      private

      def simulation = Simulation.current || raise(Error, "outside of Gyre::Testing.run there is only the real time")

      def simulate(seed)
        Fiber.set_scheduler(scheduler = Scheduler.new)
        Loop.require_native("Gyre::Testing") unless scheduler.respond_to?(:simulate)
        scheduler.extend(Reports).seed = seed
        Simulation.current = Simulation.new(scheduler, seed)
        result = yield
        ended = true
        result
      ensure
        begin
          Scheduler.leave(!ended)
        ensure
          Simulation.current = nil
        end
      end
    end
  end
end
