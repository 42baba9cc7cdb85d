# frozen_string_literal: true

# A queue that serves waiters by priority, and waiters of equal priority in order.

require "gyre/sync/queue"

module Gyre
  # Any thread may call its methods.
  class PriorityQueue < Queue
    # Wakes the waiter of highest priority.
    # @api private
    class Waiters < Gyre::Waiters
      private

      def take_out
        while (waiter = @waiting.to_a.max_by(&:last)&.first)
          return waiter if @waiting.delete(waiter) # otherwise another thread was faster
        end
      end
    end

    # (see Queue#initialize)
    def initialize(items = [])
      super
      @poppers = Waiters.new(self)
    end

    # Takes the oldest item; waits if there is none.
    # @param timeout [Numeric, nil] seconds
    # @param priority [Numeric] the waiter of highest priority gets the next item
    # @return [Object, nil] nil after the timeout, or if closed and empty
    def pop(timeout: nil, priority: 0) = take(timeout, priority) { return nil }
    alias dequeue pop
  end
end
