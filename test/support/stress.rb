# frozen_string_literal: true

# What the tests in test/stress share: how much they do, chance that can be repeated, and books
# about what was handed over. GYRE_STRESS=20 makes them twenty times as long. Chance comes from
# Minitest's seed, which each run prints and `--seed` sets.
require "gyre/scheduler"

module GyreTest
  # Methods for stress tests over an engine (see Engines).
  module Stress
    FACTOR = Float(ENV.fetch("GYRE_STRESS", "1"))

    # Which receiver got what. Each number from 0 is to be handed over once.
    class Ledger
      def initialize(count)
        @seen = Array.new(count, 0)
      end

      # From any thread.
      def got(number)
        @seen[number] += 1
      end

      # Returns whether everything has been handed over at least once.
      def complete?
        @seen.none?(0)
      end

      # Returns what is wrong; nil when each came once.
      def complaint
        lost = @seen.each_index.select { |number| @seen[number].zero? }
        twice = @seen.each_index.select { |number| @seen[number] > 1 }
        return if lost.empty? && twice.empty?

        "of #{@seen.size}, lost: #{lost.size} #{lost.first(5)}, twice: #{twice.size} #{twice.first(5)}"
      end
    end

    # How much to do: the portable engine gets a tenth, the collector at its most eager a
    # five-hundredth.
    def amount(native)
      share = FACTOR
      share /= 10 if backend == "select"
      share /= 500 if LifecycleChecks::STRESS
      [(native * share).ceil, 8].max
    end

    # Returns a new one for each test and each index within it.
    def random(index = 0)
      Random.new((Minitest.seed * 1000) + index)
    end

    # In the present thread: runs the block on a scheduler, then what it left on it. What a fiber
    # lets out fails the test.
    def on_scheduler(but: nil)
      reported = []
      scheduler = Gyre::Scheduler.new(backend)
      scheduler.define_singleton_method(:report) { |error, _fiber| reported << error unless but && error.is_a?(but) }
      Fiber.set_scheduler(scheduler)
      yield(scheduler).tap { scheduler.run }
    ensure
      Fiber.set_scheduler(nil)
      raise reported.first if reported.any?
    end

    # The same in a thread of its own.
    def scheduler_thread(**options, &block)
      Thread.new do
        Thread.current.report_on_exception = false
        on_scheduler(**options, &block)
      end
    end

    def assert_all_once(ledger)
      assert_nil ledger.complaint, "seed #{Minitest.seed}"
    end

    # Nothing of what ran on the scheduler is left on it.
    def assert_at_rest(scheduler)
      assert_equal({ tasks: 0, parked: 0, ready: 0, timers: 0 }, scheduler.stats.slice(:tasks, :parked, :ready, :timers))
    end

    # Now and then gives way, as chance will have it.
    def dawdle(random)
      case random.rand(64)
      when 0 then sleep 0
      when 1 then Thread.pass
      when 2 then sleep(random.rand * 0.0001)
      end
    end
  end
end
