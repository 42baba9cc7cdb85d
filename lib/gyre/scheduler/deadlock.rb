# frozen_string_literal: true

# Fibers of one scheduler that wait for each other: a circle of which it is certain that nobody in it can go on. Looked for
# by Scheduler#refuse_deadlock when a loop has nothing else to do, by print_hierarchy and for the watchdog.
#
#   task a ──waits for──► mutex ──held by──► fiber of task b ──waits for──► task a
#
# Only of a mutex and of what is Awaited it is known who has to go on first. A queue or a condition may be fed by anybody:
# no circle goes through them, and a wait with a timeout ends by itself.

module Gyre
  class Scheduler
    # What can be waited for and knows who has to go on before: tasks, and calls of Gyre.run.
    # @api private
    module Awaited
      # @!method awaited
      #   @return [Array<Fiber, Awaited>] all of these have to go on first
      # @!method label
      #   @return [String]
    end

    # Who waits for whom, at one moment.
    # @api private
    class Deadlock
      # What a wait has to be for to be looked at here.
      KINDS = [Thread::Mutex, Awaited].freeze
      # With more fibers than this, nobody is asked which mutex he holds.
      ASKED_LIMIT = 10_000

      # Who holds the mutexes that are waited for. Ruby knows it, but tells only the owner: each of the fibers is asked.
      # @param scheduler [Scheduler] this thread's; with another one's, nobody can be asked
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
        @waits = waits.select { |wait| wait.left_s.nil? && KINDS.any? { |kind| wait.blocker.is_a?(kind) } }
        @owners = owners
        @by_fiber = {}.compare_by_identity
        runs.each { |run| @by_fiber[run.fiber] = run }
        @waits.each { |wait| @by_fiber[wait.entered] = @by_fiber[wait.fiber] = wait }
      end

      # @return [Array<Wait, Awaited>, nil] each waits for the next, the last one for the first
      def circle
        done = {}.compare_by_identity
        @waits.each do |wait|
          circle = circle_from(wait, done) and return circle
        end
        nil
      end

      # @param waits [Array<Wait>] all that there are
      # @param circle [Array<Wait, Awaited>]
      # @return [Boolean] whether everybody waits for it, directly or not, so that nobody is left who could end it
      def holds?(waits, circle)
        held = {}.compare_by_identity
        followers = self.followers
        pending = circle.dup
        until pending.empty?
          node = pending.pop
          pending.concat(followers[node].to_a) unless held.key?(node)
          held[node] = true
        end
        waits.all? { |wait| held.key?(@by_fiber[wait.entered]) }
      end

      private

      # @return [Hash{Wait, Awaited => Array}] who waits for whom, seen from those who have to go on before
      def followers
        followers = {}.compare_by_identity
        seen = {}.compare_by_identity
        pending = @by_fiber.values
        until pending.empty?
          node = pending.pop
          next if seen.key?(node)

          seen[node] = true
          first_ones(node).each do |other|
            (followers[other] ||= []) << node
            pending << other
          end
        end
        followers
      end

      # Depth first, without recursion: a fiber's stack is small.
      def circle_from(start, done)
        path = []
        places = {}.compare_by_identity
        pending = [[start]]
        until pending.empty?
          if (node = pending.last.pop).nil?
            pending.pop
            places.delete(path.last)
            done[path.pop] = true
          elsif places.key?(node)
            return path[places[node]..]
          elsif !done.key?(node)
            places[node] = path.size
            path.push(node)
            pending.push(first_ones(node))
          end
        end
      end

      # Who has to go on before this one.
      def first_ones(node)
        awaited = if node.is_a?(Awaited) then node.awaited
                  elsif node.blocker.is_a?(Awaited) then [node.blocker]
                  else [@owners[node.blocker]]
                  end
        awaited.filter_map { |one| one.is_a?(Fiber) ? @by_fiber[one] : one }
      end
    end
  end
end
