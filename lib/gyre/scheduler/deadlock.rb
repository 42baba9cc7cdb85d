# frozen_string_literal: true

# Fibers of one scheduler that wait for each other, so that certainly none can go on before the others. Looked for
# by Scheduler#refuse_deadlock when a loop has nothing else to do, by print_hierarchy and for the watchdog.
#
#   task a ──waits for──► mutex ──held by──► fiber of task b ──waits for──► task a
#
# Only of a mutex, of a semaphore and of what is Awaited it is known what has to go on first. A queue or a condition may be
# fed from anywhere: no circle goes through them, and a wait with a timeout ends by itself.

module Gyre
  class Scheduler
    # What can be waited for and knows what has to go on before: tasks, and calls of Gyre.run.
    # @api private
    module Awaited
      # @!method awaited
      #   @return [Array<Fiber, Awaited>] all of these have to go on first
      # @!method label
      #   @return [String]
    end

    # What several fibers may hold at once, and knows its holders: semaphores.
    # @api private
    module Held
      # @!method holders
      #   @return [Array<Fiber>, nil] one of these has to let go first; nil when it is not known of every place
      # @!method lent?
      #   @return [Boolean] whether another one than its holder may give a place back
      # @!method label
      #   @return [String]
    end

    # Which fiber waits for which, at one moment.
    # @api private
    class Deadlock
      # What a wait has to be for to be looked at here.
      KINDS = [Thread::Mutex, Awaited, Held].freeze
      # With more fibers than this, none is asked which mutex it holds.
      ASKED_LIMIT = 10_000

      # The owners of the mutexes that are waited for. Ruby tells a mutex's owner only to that owner: each of the fibers is asked.
      # @param scheduler [Scheduler] this thread's; with another one's, no fiber can be asked
      # @param waits [Array<Wait>]
      # @param fibers [Array<Fiber>]
      # @return [Hash{Thread::Mutex => Fiber}]
      def self.owners(scheduler, waits, fibers)
        owners = {}.compare_by_identity
        mutexes = waits.map(&:blocker).grep(Thread::Mutex).uniq
        return owners if mutexes.empty? || fibers.size > ASKED_LIMIT || !scheduler.equal?(Fiber.scheduler)

        fibers.each do |fiber|
          owned = scheduler.ask(fiber) { mutexes.select(&:owned?) }
          owned&.each { |mutex| owners[mutex] = fiber }
        end
        owners
      end

      # @param waits [Array<Wait>]
      # @param owners [Hash{Thread::Mutex => Fiber}]
      # @param runs [Array<Run>] each is what its fiber waits for, while that one drives the loop
      def initialize(waits, owners, runs)
        @waits = waits.select { |wait| endless?(wait) }
        @owners = owners
        @by_fiber = {}.compare_by_identity
        runs.each { |run| @by_fiber[run.fiber] = run }
        @waits.each { |wait| @by_fiber[wait.entered] = @by_fiber[wait.fiber] = wait }
        @firsts = {}.compare_by_identity # node => those that have to go on before it, where that is known
        look_around
        drop_those_who_can_go_on
      end

      # @return [Array<Wait, Awaited>, nil] each waits for the next, the last one for the first
      def circle
        node = @waits.find { |wait| @firsts.key?(wait) } or return
        path = []
        places = {}.compare_by_identity
        until places.key?(node)
          places[node] = path.size
          path << node
          node = @firsts[node].find { |other| @firsts.key?(other) } # of a semaphore's holders, any
        end
        path[places[node]..]
      end

      # @param waits [Array<Wait>] all that there are
      # @return [Boolean] whether nothing is left that could end it: all wait for a circle, directly or not
      def everybody?(waits)
        waits.all? { |wait| @firsts.key?(@by_fiber[wait.entered]) }
      end

      # @return [Boolean] whether another thread may do what one of those would have to do first
      def lent?
        @waits.any? { |wait| wait.blocker.is_a?(Held) && wait.blocker.lent? && @firsts.key?(wait) }
      end

      private

      def endless?(wait)
        wait.state == :waiting && wait.left_s.nil? && KINDS.any? { |kind| wait.blocker.is_a?(kind) }
      end

      # Without recursion, here and below: a fiber's stack is small.
      def look_around
        pending = @by_fiber.values
        until pending.empty?
          node = pending.pop
          pending.concat(@firsts[node] = first_ones(node)) unless @firsts.key?(node)
        end
      end

      # Until only those are left of which none can go on before another one of them.
      def drop_those_who_can_go_on
        followers = {}.compare_by_identity
        @firsts.each { |node, firsts| firsts.each { |first| (followers[first] ||= []) << node } }
        lacking = @firsts.to_h { |node, firsts| [node, any?(node) ? [firsts.size, 1].min : firsts.size] }.compare_by_identity
        pending = @firsts.keys.select { |node| lacking[node].zero? }
        until pending.empty?
          node = pending.pop
          next unless @firsts.delete(node)

          followers[node]&.each { |follower| pending << follower if (lacking[follower] -= 1) <= 0 }
        end
      end

      # @return [Boolean] whether any one that goes on is enough; else it takes all of them
      def any?(node)
        node.is_a?(Wait) && node.blocker.is_a?(Held)
      end

      # What has to go on before this one; empty when that is unknown.
      # @return [Array<Wait, Awaited>]
      def first_ones(node)
        return holders(node.blocker) if any?(node)

        awaited = if node.is_a?(Awaited) then node.awaited
                  elsif node.blocker.is_a?(Awaited) then [node.blocker]
                  else [@owners[node.blocker]]
                  end
        awaited.filter_map { |one| one.is_a?(Fiber) ? @by_fiber[one] : one }
      end

      def holders(held)
        nodes = held.holders.to_a.map { |fiber| @by_fiber[fiber] }
        nodes.all? ? nodes : []
      end
    end
  end
end
