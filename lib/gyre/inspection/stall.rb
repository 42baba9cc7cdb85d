# frozen_string_literal: true

# Fibers that all wait for each other's actions, such as two tasks at queues that the other should
# fill. Reports once, raises nothing, as others may fill a queue. Only without other threads,
# timers, descriptors and signal listeners; a single fiber may wait for a signal handler. Called by
# Deadlock.refuse without a circle.

require_relative "../loop/traps"

module Gyre
  class Inspection
    module Stall
      # Threads that only work on request.
      OWN_THREADS = ["gyre offload", "gyre watchdog"].freeze
      LINES = 20

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

        def other_threads? = Thread.list.any? { |thread| thread != Thread.current && !OWN_THREADS.include?(thread.name) }

        # Sleeps end by themselves, and waits for ended threads soon.
        def for_another?(wait) = wait.state == :waiting && !wait.left_s && !wait.blocker.nil? && !wait.blocker.is_a?(Thread) && !wait.sleeping?

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
