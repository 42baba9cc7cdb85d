# frozen_string_literal: true

# What Gyre::Testing asks of the portable engine: the same as ext/gyre/fiber/scheduler_testing.c of
# the native one. Added to its classes when gyre/testing is required.

require "gyre/loop/portable"
require "gyre/scheduler"

module Gyre
  module Testing
    # Stands before a portable loop's backend and goes forward in time where that one would sleep.
    class VirtualBackend
      # @return [Float] the loop's time
      attr_reader :now

      # @param backend [Loop::Select]
      def initialize(backend)
        @now = real_now
        stand_before(backend)
      end

      # In a forked child it is another one, and threads that worked for the parent do not for the
      # child.
      # @param backend [Loop::Select]
      # @return [self]
      def stand_before(backend)
        @backend = backend
        @outside = 0
        self
      end

      # @param change [Integer] 1 or -1
      def outside(change)
        @outside += change
      end

      def wait(timeout)
        return @backend.wait(timeout) if timeout.nil? || timeout.zero?
        return wait_for_others(timeout) if @outside.positive?

        events = @backend.wait(0)
        @now = (@now + timeout).next_float if events.empty? # not a bit too early
        events
      end

      def watch(...) = @backend.watch(...)
      def unwatch(...) = @backend.unwatch(...)
      def wake = @backend.wake
      def close = @backend.close

      private

      # Something works for this loop in real time, so for once it goes on here, too.
      def wait_for_others(timeout)
        begun_at = real_now
        @backend.wait(timeout).tap { @now += real_now - begun_at }
      end

      def real_now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end

  module Testing
    # For a scheduler's fibers: the next one is drawn from those that are ready.
    module Drawn
      # @param random [Random]
      def random=(random)
        @random = random
        @sweep.delay_s = 0 # no time has to pass before it looks
      end

      private

      # Any of the ready ones comes to the front. A fiber that has just started another goes on
      # before all others.
      def next_ready
        waiter = super
        return waiter if waiter.nil? || waiter.first

        @ready.select! { |other| other.state == :ready }
        @ready.unshift(@ready.delete_at(@random.rand(@ready.size)))
        @ready.first
      end
    end
  end

  class Loop
    class Portable
      # @return [Testing::VirtualBackend]
      def simulate
        virtual = Testing::VirtualBackend.new(@backend)
        make = @make_backend
        @make_backend = -> { virtual.stand_before(make.call) }
        @backend = virtual
      end
    end
  end

  class Scheduler
    module Portable
      # From now on the time stands still but for jumps, and the ready fibers are drawn.
      # @param seed [Integer, nil] the same one gives the same order; nil leaves the ready fibers in
      #   their own
      def simulate(seed)
        @fibers.extend(Testing::Drawn).random = Random.new(seed) if seed
        @simulation = @loop.simulate
        nil
      end

      # @return [Float] the time of the loop
      def virtual_now
        @simulation.now
      end

      # @param change [Integer] 1 or -1: something beside the loop works for it, or has finished
      def outside(change)
        @simulation.outside(change)
        nil
      end
    end
  end
end
