# frozen_string_literal: true

# A task's unfinished children, and the number that it waits for. Starts and stops none.

module Gyre
  class Task
    class Children
      def initialize
        @tasks = {}.compare_by_identity # in the order of their starts
        @needed_count = 0 # children that are not transient
      end

      def add(task)
        @tasks[task] = true
        @needed_count += 1 unless task.transient?
      end

      def delete(task)
        @needed_count -= 1 if @tasks.delete(task) && !task.transient?
      end

      def to_a = @tasks.keys

      def empty? = @tasks.empty?

      # True if one is not transient.
      def needed? = @needed_count.positive?

      # Counts again: an exception may have come before one was counted.
      def recount = @needed_count = to_a.count { |task| !task.transient? }

      def freeze
        @tasks.freeze
        super
      end

      NONE = new.freeze
    end
  end
end
