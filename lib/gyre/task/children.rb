# frozen_string_literal: true

# The children of one task that are not over yet, and how many of them it has to wait for. Made by
# Gyre::Task with its first child; never starts or stops one.

module Gyre
  class Task
    class Children
      def initialize
        @tasks = {}.compare_by_identity # in the order in which they were started
        @needed_count = 0 # those that are not transient
      end

      # @param task [Task]
      def add(task)
        @tasks[task] = true
        @needed_count += 1 unless task.transient?
      end

      # @param task [Task] harmless when it is gone already
      def delete(task)
        @needed_count -= 1 if @tasks.delete(task) && !task.transient?
      end

      # @return [Array<Task>] the oldest first
      def to_a = @tasks.keys

      def empty? = @tasks.empty?

      # @return [Boolean] whether there are others than transient ones
      def needed? = @needed_count.positive?

      # When an exception from outside may have kept one from being counted.
      def recount
        @needed_count = to_a.count { |task| !task.transient? }
      end

      # @return [self]
      def freeze
        @tasks.freeze
        super
      end

      # Those of a task that has started none.
      NONE = new.freeze
    end
  end
end
