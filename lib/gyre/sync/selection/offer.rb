# frozen_string_literal: true

# What a waiting Gyre::Selection has out with all that it waits for: the first one that takes it has
# it, and the selection goes on with that case. Taken from any thread, with or without a channel's
# lock.

require "gyre/sync/spin_lock"
require "gyre/sync/waiter"

module Gyre
  class Selection
    class Offer
      # @return [Case, nil]
      attr_reader :taken

      # @param selection [Selection]
      def initialize(selection)
        @waiter = Waiter.new(selection)
        @token = [true] # Array#pop is one step for all threads
        @taken = nil
      end

      # @param one [Case] whose turn it is
      # @return [Boolean] whether it was still to be had
      # @yield when it was, before the selection goes on
      def take(one)
        Thread.handle_interrupt(SpinLock::NEVER) do # taken, and the waiter woken
          next false unless @token.pop

          yield if block_given?
          @taken = one
          @waiter.wake
          true
        end
      end

      # @param timeout [Numeric, nil] seconds
      # @return [Case, nil] nil when the time was over; it cannot be taken any more then
      def wait(timeout)
        return @taken if @waiter.park(timeout) || @token.pop.nil? && @waiter.park

        nil
      end
    end
  end
end
