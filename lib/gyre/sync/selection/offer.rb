# frozen_string_literal: true

# The offer of a waiting Gyre::Selection to all its cases: the first to take it wins, and the
# selection continues with it. Any thread may take it, with or without a channel's lock.

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

      # Takes the offer if it is free, and yields before the selection continues. Returns whether it
      # was free.
      def take(one)
        Thread.handle_interrupt(SpinLock::NEVER) do # both taken and the waiter woken
          next false unless @token.pop

          yield if block_given?
          @taken = one
          @waiter.wake
          true
        end
      end

      # Returns nil after the time, when it cannot be taken any more.
      def wait(timeout)
        return @taken if @waiter.park(timeout) || @token.pop.nil? && @waiter.park

        nil
      end
    end
  end
end
