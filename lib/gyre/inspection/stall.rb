# frozen_string_literal: true

# Fibers of one scheduler that all wait for actions of each other: two tasks, for example, each at a
# queue that the other should fill. Reports it once and raises nothing, as a queue may be filled
# from elsewhere. Applies only without other threads, timers, descriptors and signal listeners. A
# single waiting fiber may wait for a signal handler. Called by Deadlock.refuse if there is no
# circle.

require_relative "../loop/traps"

module Gyre
  class Inspection
    module Stall
      # Threads that work only on request.
      OWN_THREADS = ["gyre offload", "gyre watchdog"].freeze
      LINES = 20
      private_constant :OWN_THREADS, :LINES

      class << self
        def report(scheduler)
          return if signals? || other_threads?

          inspection = Inspection.new(scheduler)
          waits = inspection.waits
          return if waits.count { |wait| !wait.blocker.is_a?(Awaited) } < 2 || !waits.all? { |wait| for_another?(wait) }

          scheduler.report_once("Gyre: all of these wait, and only a signal could end it:\n#{describe(inspection)}\n")
        end

        private

        # Only the main Ractor gets signals.
        def signals? = Ractor.current == Ractor.main && Loop::Traps.any?

        def other_threads?
          Thread.list.any? { |thread| thread != Thread.current && !OWN_THREADS.include?(thread.name) }
        end

        # A sleep ends by itself; a wait for an ended thread is about to end.
        def for_another?(wait)
          wait.state == :waiting && !wait.left_s && !wait.blocker.nil? && !wait.blocker.is_a?(Thread) && !wait.sleeping?
        end

        def describe(inspection)
          waits = inspection.waits
          lines = waits.first(LINES).map { |wait| "  #{inspection.label(wait.entered)} is #{wait} at #{wait.place}" }
          lines << "  and #{waits.size - LINES} more" if waits.size > LINES
          lines.join("\n")
        end
      end
    end
  end
end
