# frozen_string_literal: true

# What a scheduler shows of itself: which fiber waits for what, and that some wait for each other. Part of Gyre::Scheduler, over
# what each engine tells (`list_waits`, `ask`, `stats`, `pulse`). Gyre.print_hierarchy and Gyre::Watchdog look through it.

require_relative "deadlock"
require_relative "standstill"
require_relative "wait"

module Gyre
  class Scheduler
    # @api private
    module Sight
      # With more holders of a semaphore than this, the others are only counted.
      HOLDERS_NAMED = 3
      private_constant :HOLDERS_NAMED

      # The fibers of this scheduler that wait, or are ready to go on. From any thread.
      # @param classes [Array<Module>, nil] only those that wait for an object of one of these
      # @return [Array<Wait>]
      def waits(classes = nil)
        list_waits(classes).map { |values| Wait.new(*values) }
      end

      # @return [Watchdog, nil]
      attr_reader :watchdog

      def watchdog=(watchdog)
        @watchdog = watchdog
        self.suspicious = !watchdog.nil?
      end

      # @return [Array<Run>] the calls of Gyre.run that are under way here
      def runs
        @runs ||= []
      end

      # @return [Hash{Fiber => Task}] whose fiber is whose
      def tasks
        map = {}.compare_by_identity
        runs.each { |run| run.root.family.each { |task| map[task.fiber] = task if task.fiber } }
        map
      end

      # What a fiber is called in messages.
      # @param fiber [Fiber]
      # @param tasks [Hash{Fiber => Task}] (see #tasks)
      # @return [String]
      def label(fiber, tasks)
        (tasks[fiber] || runs.find { |run| run.fiber.equal?(fiber) })&.label || "a fiber"
      end

      # Called by the engines when nothing has happened for a while: nothing of this loop would wake a fiber, or it is
      # watched (`suspicious=`).
      # @param certain [Boolean] whether neither a timer nor a descriptor could change anything
      # @raise [DeadlockError] when fibers wait for each other, and all others for them; a wait for something else,
      #   a queue perhaps, could still end it when another thread or a signal comes, so that is only reported
      def refuse_deadlock(certain)
        waits = self.waits([*Deadlock::KINDS, Offload::Job])
        certain &&= waits.none? { |wait| wait.blocker.is_a?(Offload::Job) } # its end might lead to something
        owners = Deadlock.owners(self, waits, waits.map(&:fiber) | waits.map(&:entered) | runs.map(&:fiber))
        deadlock = Deadlock.new(waits, owners, runs)
        circle = deadlock.circle or return (Standstill.report(self) if certain)
        text = describe_circle(circle, owners)
        if certain && !deadlock.lent? && deadlock.everybody?(self.waits)
          raise DeadlockError, "each of these waits for the next, and nothing else can happen:\n#{text}"
        end

        @watchdog ? @watchdog.deadlock(text) : (warn_of_deadlock(text) if certain)
      end

      # @param circle [Array<Wait, Awaited>]
      # @param owners [Hash{Thread::Mutex => Fiber}]
      # @return [String] a line for each
      def describe_circle(circle, owners, tasks = self.tasks)
        lines = circle.filter_map do |node|
          next describe_end(node) if node.is_a?(Awaited)

          "  #{label(node.entered, tasks)} is #{node.to_s(holding(node.blocker, owners, tasks))} at #{node.place}"
        end
        lines.join("\n")
      end

      # @param blocker [Object] what a fiber waits for
      # @param owners [Hash{Thread::Mutex => Fiber}]
      # @return [String, nil] its holder and the verb, if that is known: task "b" holds
      def holding(blocker, owners, tasks)
        fibers = blocker.is_a?(Held) ? blocker.holders.to_a : [owners[blocker]].compact
        return if fibers.empty?

        names = fibers.first(HOLDERS_NAMED).map { |fiber| label(fiber, tasks) }
        names << "#{fibers.size - HOLDERS_NAMED} more" if fibers.size > HOLDERS_NAMED
        last = names.pop
        names.empty? ? "#{last} holds" : "#{names.join(", ")} and #{last} hold"
      end

      # However often the loop comes to rest.
      # @param text [String]
      def say_once(text)
        return if @said == text

        @said = text
        $stderr.write(text)
      end

      private

      def warn_of_deadlock(text)
        say_once("Gyre: each of these waits for the next, and only another thread or a signal could end it:\n#{text}\n")
      end

      # A task whose block is over; the others show by what their fibers wait for.
      def describe_end(node)
        "  #{node.label} is waiting for its children" if node.awaited.none?(Fiber)
      end
    end
  end
end
