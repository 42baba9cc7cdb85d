# frozen_string_literal: true

# Fibers that wait for each other in a circle. Called by Scheduler#refuse_deadlock for an idle loop,
# by print_hierarchy and the watchdog.
#
#   task a ──waits for──► mutex ──held by──► fiber of task b ──waits for──► task a
#
# Considers only mutexes, semaphores and Awaited: anything may feed queues and conditions, and waits
# with a timeout end by themselves.

require_relative "../loop/traps"

module Gyre
  class Semaphore; end # sync/semaphore.rb may be loaded later

  class Inspection
    # An object that knows its prerequisites: tasks, calls of Gyre.run.
    # @api private
    module Awaited
      # @!method awaited
      #   @return [Array<Fiber, Awaited>] all must go first
      # @!method label
      #   @return [String]
    end

    # Fibers' waits for each other at one moment.
    # @api private
    class Deadlock
      # Other waits are ignored.
      KINDS = [Thread::Mutex, Awaited, Semaphore].freeze

      # Called for an idle loop. `certain`: nothing in the loop can wake a fiber; otherwise it has a
      # watchdog.
      # @param scheduler [Scheduler] this thread's
      # @param certain [Boolean] neither timers nor descriptors can wake fibers
      # @raise [DeadlockError] if fibers wait for each other, and all others for them
      def self.refuse(scheduler, certain)
        inspection = Inspection.new(scheduler, [*KINDS, Offload::Job])
        certain &&= inspection.waits.none? { |wait| wait.blocker.is_a?(Offload::Job) } # its end might change something
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

      # @param inspection [Inspection] one whose driving fiber waits for its run
      def initialize(inspection)
        @waits = inspection.waits.select { |wait| endless?(wait) }
        @owners = inspection.owners
        @by_fiber = {}.compare_by_identity
        inspection.runs.each { |run| @by_fiber[run.fiber] = run }
        @waits.each { |wait| @by_fiber[wait.entered] = @by_fiber[wait.fiber] = wait }
        @prerequisites = {}.compare_by_identity # node => known nodes that have to go on before it
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

      # @param waits [Array<Wait>] all of the scheduler
      # @return [Boolean] whether all wait for a circle
      def complete?(waits) = waits.all? { |wait| @prerequisites.key?(@by_fiber[wait.entered]) }

      # @return [Boolean] whether another thread could break it
      def lent? = @waits.any? { |wait| wait.blocker.is_a?(Semaphore) && wait.blocker.lent? && @prerequisites.key?(wait) }

      private

      def endless?(wait) = wait.state == :waiting && wait.left_s.nil? && KINDS.any? { |kind| wait.blocker.is_a?(kind) }

      # Without recursion, as fibers' stacks are small.
      def collect_prerequisites
        pending = @by_fiber.values
        until pending.empty?
          node = pending.pop
          pending.concat(@prerequisites[node] = prerequisites_of(node)) unless @prerequisites.key?(node)
        end
      end

      # Keeps nodes that must wait for others.
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

      # @return [Array<Wait, Awaited>] nodes that must go first; empty if unknown
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

    # Fibers that all wait for each other's actions, such as two tasks at queues that the other
    # should fill. Reports once, raises nothing, as others may fill a queue. Only without other
    # threads, timers, descriptors and signal listeners; a single fiber may wait for a signal
    # handler. Called by Deadlock.refuse without a circle.
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

        # A sleep ends by itself, and a wait for an ended thread soon.
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
