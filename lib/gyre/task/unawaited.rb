# frozen_string_literal: true

# Failures of a Gyre.run that no `wait` has raised. Reports a failure when the task's parent
# finishes, or once the task is collected, as no `wait` can come then. A fiber starts garbage
# collections to find such tasks: minor ones, and now and then a full one, for old tasks.

module Gyre
  class Task
    class Unawaited
      # Seconds until the first check for collected tasks. Each further check waits twice as long.
      LOOK_AFTER_S = 1
      LOOK_AFTER_S_LIMIT = 60
      FULL_EACH = 4 # a task is old once it has survived three collections

      def initialize(scheduler)
        @scheduler = scheduler
        @failures = {}.compare_by_identity # parent => { failure => true }
        @tasks = ObjectSpace::WeakMap.new # failure => its task, without keeping either alive
        @watcher = nil
        @ended = false
      end

      def add(failure, task)
        return failure.report if @ended || failure.parent&.finished?

        (@failures[failure.parent] ||= {}.compare_by_identity)[failure] = true
        @tasks[failure] = task
        @scheduler.spawn(method(:watch)) if @watcher.nil? && @scheduler.equal?(Fiber.scheduler)
      end

      def forget(failure)
        siblings = @failures[failure.parent] or return
        siblings.delete(failure)
        @failures.delete(failure.parent) if siblings.empty?
      end

      def parent_finished(parent) = (@failures.delete(parent)&.each_key(&:report) unless @failures.empty?)

      # Reports all failures. Later failures are reported at once.
      def finish
        @ended = true
        @scheduler.fiber_interrupt(@watcher, Stop.new) if @watcher
        parent_finished(@failures.first.first) until @failures.empty?
      end

      # Called in a forked child, which drops the parent's failures and fiber.
      def process_fork
        @failures.clear
        @watcher = nil
      end

      private

      def watch
        @watcher = Fiber.current
        seconds = LOOK_AFTER_S
        (1..).each do |check|
          break if @failures.empty? || @ended

          Kernel.sleep(seconds)
          GC.start(full_mark: (check % FULL_EACH).zero?, immediate_sweep: false)
          report_forgotten
          seconds = [seconds * 2, LOOK_AFTER_S_LIMIT].min
        end
      rescue Stop # by `finish`
        nil
      ensure
        @watcher = nil
      end

      def report_forgotten
        @failures.values.flat_map(&:keys).each do |failure|
          next if @tasks.key?(failure)

          forget(failure)
          failure.report
        end
      end
    end
  end
end
