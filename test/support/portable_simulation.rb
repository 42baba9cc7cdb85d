# frozen_string_literal: true

# Gyre::Testing on the portable engine, for Gyre's own tests: a clock that jumps and a drawn order.
# Programs have it on the native engine only (ext/gyre/fiber/scheduler.c).

require "gyre/loop/portable"
require "gyre/scheduler"
require "gyre/testing"

module Gyre
  module Testing
    # Moves the time of a portable loop instead of sleeping.
    class VirtualBackend
      attr_reader :now

      def initialize(backend)
        @now = real_now
        stand_before(backend)
      end

      # A forked child has another backend.
      def stand_before(backend)
        @backend = backend
        @outside = 0
        self
      end

      # Work beside the loop begins (1) or ends (-1): meanwhile time is real.
      def outside(change) = @outside += change

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

      # Lets time pass while something works in real time.
      def wait_for_others(timeout)
        begun_at = real_now
        @backend.wait(timeout).tap { @now += real_now - begun_at }
      end

      def real_now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # Draws ready fibers.
    module Drawn
      attr_writer :random

      private

      # No time has to pass before the check.
      def sweep_later = @loop.timers.after(0, -> { sweep })

      # Moves a ready fiber to the front; but a fiber that has just started another goes first.
      def next_ready
        waiter = super
        return waiter if waiter.nil? || waiter.first

        @ready.select! { |other| other.state == :ready }
        @ready.unshift(@ready.delete_at(@random.rand(@ready.size)))
        @ready.first
      end
    end

    # Prepended to the portable loop.
    module VirtualLoop
      def simulate = @backend = @virtual = VirtualBackend.new(@backend)

      private

      def open
        super
        @backend = @virtual.stand_before(@backend) if @virtual
      end
    end

    Loop::Portable.prepend(VirtualLoop)
    Loop::Timers.singleton_class.prepend(Simulation::Time)
  end

  class Scheduler
    module Portable
      # From now on the clock only jumps, and ready fibers are drawn by the seed; nil keeps their
      # order.
      def simulate(seed)
        @fibers.extend(Testing::Drawn).random = Random.new(seed) if seed
        @simulation = @loop.simulate
        nil
      end

      def virtual_now = @simulation.now

      def outside(change)
        @simulation.outside(change)
        nil
      end
    end
  end
end
