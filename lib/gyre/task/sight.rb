# frozen_string_literal: true

# What print_hierarchy, the watchdog and the search for deadlocks want to know of a task. Part of Gyre::Task.

require "gyre/clock"

module Gyre
  class Task
    # @api private
    module Sight
      include Scheduler::Awaited

      # @return [Fiber, nil] the one that runs its block; nil before and after that
      attr_reader :fiber

      # @return [Float] how many seconds ago it was made
      def age_s
        Clock.now - @made_s
      end

      # @return [Boolean] whether it was asked to stop, and is not over
      def stopping?
        !@finished && (@stopping == true || stop_deferred?)
      end

      # What has to go on first, for the task to end: its block, then its children.
      # @return [Array<Fiber, Task>]
      def awaited
        @fiber ? [@fiber] : children.reject(&:transient?)
      end

      private

      def come_into_sight
        @made_s = Clock.now
      end
    end
  end
end
