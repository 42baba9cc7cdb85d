# frozen_string_literal: true

# The failures of one Gyre.run that no `wait` has raised yet, so that none is lost. One is reported
# when its task's parent finishes, or as soon as the program holds the task no longer: then no
# `wait` can raise it. Only a garbage collection finds that out, so while there are such failures a
# fiber of its own asks for a small one now and then. Never reports a failure whose task is still
# referenced, since it may yet be awaited.

module Gyre
  class Task
    class Unawaited
      # Seconds until the first look for forgotten tasks; each further look waits twice as long.
      LOOK_AFTER_S = 1
      LOOK_AFTER_S_LIMIT = 60

      # @param scheduler [Scheduler]
      def initialize(scheduler)
        @scheduler = scheduler
        @failures = {}.compare_by_identity # parent => { failure => true }
        @tasks = ObjectSpace::WeakMap.new # failure => its task, neither kept alive by it
        @watcher = nil
        @ended = false
      end

      # @param failure [Failure]
      # @param task [Task] the failed one
      def add(failure, task)
        return failure.report if @ended || failure.parent&.finished?

        (@failures[failure.parent] ||= {}.compare_by_identity)[failure] = true
        @tasks[failure] = task
        @scheduler.spawn(method(:watch)) if @watcher.nil? && @scheduler.equal?(Fiber.scheduler)
      end

      # @param failure [Failure] one that a `wait` has raised
      def forget(failure)
        siblings = @failures[failure.parent] or return
        siblings.delete(failure)
        @failures.delete(failure.parent) if siblings.empty?
      end

      # Reports the failures of a task's children.
      # @param parent [Task] one that has finished
      def parent_finished(parent)
        @failures.delete(parent)&.each_key(&:report) unless @failures.empty?
      end

      # Reports what is left; from now on a failure without a waiter is reported at once.
      def finish
        @ended = true
        @scheduler.fiber_interrupt(@watcher, Stop.new) if @watcher
        parent_finished(@failures.first.first) until @failures.empty?
      end

      # In a forked child: the failures are the parent's, and so is the fiber that looks for them.
      def process_fork
        @failures.clear
        @watcher = nil
      end

      private

      def watch
        @watcher = Fiber.current
        seconds = LOOK_AFTER_S
        until @failures.empty? || @ended
          Kernel.sleep(seconds)
          GC.start(full_mark: false, immediate_sweep: false)
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
