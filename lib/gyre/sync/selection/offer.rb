# frozen_string_literal: true

# A waiting Gyre::Selection's offer to its cases: the first to take it wins. Any thread may take it,
# with or without a channel's lock.

require "gyre/sync/spin_lock"
require "gyre/sync/waiter"

module Gyre
  class Selection
    class Offer
      attr_reader :taken

      def initialize(selection)
        @waiter = Waiter.new(selection)
        @token = [true] # Array#pop is one step for all threads
        @taken = nil
      end

      # Takes a free offer, then yields before the selection continues. True if it was free.
      def take(one)
        Thread.handle_interrupt(SpinLock::NEVER) do # both taken and the waiter woken
          next false unless @token.pop

          yield if block_given?
          @taken = one
          @waiter.wake
          true
        end
      end

      # Returns nil after the timeout; then no case can take it.
      def wait(timeout)
        return @taken if @waiter.park(timeout) || @token.pop.nil? && @waiter.park

        nil
      end
    end
  end
end
