# frozen_string_literal: true

# Finds fibers that wait for each other in a circle. Called by Scheduler#refuse_deadlock, if the
# loop is idle or has a watchdog, and by print_hierarchy.
#
#   task a ──waits for──► mutex ──held by──► fiber of task b ──waits for──► task a
#
# Considers only waits for mutexes, semaphores and Awaited objects, as any code may fill a queue or
# signal a condition. Ignores waits with a timeout, as they end by themselves.

require_relative "../loop/traps"

module Gyre
  class Semaphore; end # sync/semaphore.rb may be loaded later

  class Inspection
    # An awaited object that itself waits for fibers or objects: a task or a call of Gyre.run.
    # @api private
    module Awaited
      # @!method awaited
      #   @return [Array<Fiber, Awaited>] all must end before this object ends
      # @!method label
      #   @return [String]
    end

    # @api private
    class Deadlock
      KINDS = [Thread::Mutex, Awaited, Semaphore].freeze

      # Raises or reports a deadlock if there is one. Called if the loop is idle or has a watchdog.
      # @param scheduler [Scheduler] this thread's
      # @param certain [Boolean] whether neither timers nor descriptors can wake fibers
      # @raise [DeadlockError] fibers wait for each other, and all other fibers wait for them
      def self.refuse(scheduler, certain)
        inspection = Inspection.new(scheduler, [*KINDS, Offload::Job])
        # The end of an Offload job may wake a fiber.
        certain &&= inspection.waits.none? { |wait| wait.blocker.is_a?(Offload::Job) }
        deadlock = new(inspection)
        circle = deadlock.circle or return (Stall.report(scheduler) if certain)
        text = inspection.describe_circle(circle)
        if certain && !deadlock.lent? && deadlock.complete?(scheduler.waits)
          raise DeadlockError, "each of these waits for the next, and nothing else can happen:\n#{text}"
        end

        if scheduler.watchdog
          scheduler.watchdog.deadlock(text)
        elsif certain
          scheduler.report_once("Gyre: each of these waits for the next, and only another thread or a signal could end it:\n#{text}\n")
        end
      end

      # @param inspection [Inspection] made while the driving fiber waits for its run
      def initialize(inspection)
        @waits = inspection.waits.select { |wait| endless?(wait) }
        @owners = inspection.owners
        @by_fiber = {}.compare_by_identity
        inspection.runs.each { |run| @by_fiber[run.fiber] = run }
        @waits.each { |wait| @by_fiber[wait.entered] = @by_fiber[wait.fiber] = wait }
        @prerequisites = {}.compare_by_identity # node => known nodes that must go on first
        collect_prerequisites
        drop_nodes_that_can_go_on
      end

      # @return [Array<Wait, Awaited>, nil] each waits for the next, the last for the first
      def circle
        node = @waits.find { |wait| @prerequisites.key?(wait) } or return
        path = []
        places = {}.compare_by_identity
        until places.key?(node)
          places[node] = path.size
          path << node
          node = @prerequisites[node].find { |other| @prerequisites.key?(other) } # any of a semaphore's holders
        end
        path[places[node]..]
      end

      # @param waits [Array<Wait>] all waits of the scheduler
      # @return [Boolean] whether each wait is in a circle or waits for one
      def complete?(waits) = waits.all? { |wait| @prerequisites.key?(@by_fiber[wait.entered]) }

      # @return [Boolean] whether another thread could give back a place that a fiber waits for
      def lent? = @waits.any? { |wait| wait.blocker.is_a?(Semaphore) && wait.blocker.lent? && @prerequisites.key?(wait) }

      private

      def endless?(wait) = wait.state == :waiting && wait.left_s.nil? && KINDS.any? { |kind| wait.blocker.is_a?(kind) }

      # Uses a list instead of recursion, as fibers' stacks are small.
      def collect_prerequisites
        pending = @by_fiber.values
        until pending.empty?
          node = pending.pop
          pending.concat(@prerequisites[node] = prerequisites_of(node)) unless @prerequisites.key?(node)
        end
      end

      # Deletes each node that can go on. The remaining nodes are in a circle or wait for a node of
      # a circle.
      def drop_nodes_that_can_go_on
        followers = {}.compare_by_identity
        @prerequisites.each { |node, firsts| firsts.each { |first| (followers[first] ||= []) << node } }
        lacking = @prerequisites.to_h { |node, firsts| [node, any?(node) ? [firsts.size, 1].min : firsts.size] }.compare_by_identity
        pending = @prerequisites.keys.select { |node| lacking[node].zero? }
        until pending.empty?
          node = pending.pop
          next unless @prerequisites.delete(node)

          followers[node]&.each { |follower| pending << follower if (lacking[follower] -= 1) <= 0 }
        end
      end

      # @return [Boolean] whether one prerequisite is enough
      def any?(node) = node.is_a?(Wait) && node.blocker.is_a?(Semaphore)

      # @return [Array<Wait, Awaited>] nodes that must go on first; empty if unknown
      def prerequisites_of(node)
        return holders(node.blocker) if any?(node)

        awaited = if node.is_a?(Awaited) then node.awaited
                  elsif node.blocker.is_a?(Awaited) then [node.blocker]
                  else [@owners[node.blocker]]
                  end
        awaited.filter_map { |one| one.is_a?(Fiber) ? @by_fiber[one] : one }
      end

      def holders(semaphore)
        nodes = semaphore.holders.to_a.map { |fiber| @by_fiber[fiber] }
        nodes.all? ? nodes : []
      end
    end

    # Reports that all fibers wait and none can wake another, such as two tasks that each wait for
    # the other to fill a queue. Called by Deadlock.refuse if the loop is idle and no circle
    # exists. Reports once and raises nothing, as a signal handler may still fill a queue. Reports
    # nothing if there are other threads or signal listeners, or if a single fiber waits, perhaps
    # for a signal handler.
    module Stall
      # Names of Gyre's threads that work only on request.
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

        # True if another fiber must end the wait. A sleep ends by itself, and an awaited thread has
        # already ended, as no other thread is left.
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
