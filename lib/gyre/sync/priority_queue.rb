# frozen_string_literal: true

# A queue that serves waiters by priority, equal ones in order. Items have no priority and come in
# pushing order.

require "gyre/sync/queue"

module Gyre
  # Otherwise as {Queue}. Every method may be called from any thread.
  class PriorityQueue < Queue
    # Wakes the most important waiter first; otherwise like {Waiters}.
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

    # Takes the oldest item; waits for one if necessary.
    # @param timeout [Numeric, nil] seconds
    # @param priority [Numeric] of all waiters, the one with the highest gets the next item
    # @return [Object, nil] nil when the time is over, or when the queue is closed and empty
    def pop(timeout: nil, priority: 0) = take(timeout, priority) { return nil }
    alias dequeue pop
  end
end
