# frozen_string_literal: true

# A snapshot of a scheduler: waits, the fibers' tasks, and the holders of awaited objects. Made by
# Scheduler#refuse_deadlock and Gyre::Inspection::Hierarchy; changes nothing.

require_relative "inspection/deadlock"
require_relative "inspection/wait"

module Gyre
  # @api private
  class Inspection
    # Maximum holders of a semaphore that a message names.
    HOLDERS_NAMED = 3
    # If more fibers wait, none is asked for the mutexes that it owns.
    ASKED_LIMIT = 10_000
    private_constant :HOLDERS_NAMED, :ASKED_LIMIT

    # @return [Array<Wait>]
    attr_reader :waits
    # @return [Array<Run>]
    attr_reader :runs

    # @param scheduler [Scheduler]
    # @param classes [Array<Module>, nil] selects waits by the awaited object
    def initialize(scheduler, classes = nil)
      @scheduler = scheduler
      @waits = scheduler.waits(classes)
      @runs = scheduler.runs
    end

    # @return [Hash{Fiber => Task}]
    def tasks
      @tasks ||= @runs.flat_map { |run| run.root.family }.to_h { |task| [task.fiber, task] }.compare_by_identity.tap { |map| map.delete(nil) }
    end

    # Asks every fiber for the awaited mutexes that it owns, as Ruby tells only the owner itself
    # (Mutex#owned?). Finds no owners if called outside of the scheduler's thread.
    # @return [Hash{Thread::Mutex => Fiber}]
    def owners
      @owners ||= {}.compare_by_identity.tap do |owners|
        mutexes = @waits.map(&:blocker).grep(Thread::Mutex).uniq
        fibers = @waits.flat_map { |wait| [wait.fiber, wait.entered] } | @runs.map(&:fiber)
        next if mutexes.empty? || fibers.size > ASKED_LIMIT || !@scheduler.equal?(Fiber.scheduler)

        fibers.each do |fiber|
          owned = @scheduler.ask(fiber) { mutexes.select(&:owned?) }
          owned&.each { |mutex| owners[mutex] = fiber }
        end
      end
    end

    # @param fiber [Fiber]
    # @return [String] for messages
    def label(fiber) = (tasks[fiber] || @runs.find { |run| run.fiber.equal?(fiber) })&.label || "a fiber"

    # @param wait [Wait]
    # @return [String] such as: waiting for a mutex that task "b" holds
    def describe(wait) = wait.to_s(holding(wait.blocker))

    # @param circle [Array<Wait, Awaited>]
    # @return [String] a line for each fiber or task
    def describe_circle(circle)
      lines = circle.filter_map do |node|
        next "  #{label(node.entered)} is #{describe(node)} at #{node.place}" if node.is_a?(Wait)

        # The node's block is over. While a block runs, the Wait of its fiber is shown instead.
        "  #{node.label} is waiting for its children" if node.awaited.none?(Fiber)
      end
      lines.join("\n")
    end

    private

    def holding(blocker)
      fibers = blocker.is_a?(Semaphore) ? blocker.holders.to_a : [owners[blocker]].compact
      return if fibers.empty?

      names = fibers.first(HOLDERS_NAMED).map { |fiber| label(fiber) }
      names << "#{fibers.size - HOLDERS_NAMED} more" if fibers.size > HOLDERS_NAMED
      last = names.pop
      names.empty? ? "#{last} holds" : "#{names.join(", ")} and #{last} hold"
    end
  end
end
