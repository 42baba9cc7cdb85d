# frozen_string_literal: true

# Whose turn it is to read from a transport, or to write to it: a Mutex for which a caller may wait
# for so long only. Made by transport_object.c for the first reader or writer that has to wait,
# which takes it there (rb_mutex_trylock) and waits here.

require "gyre/sync/waiters"

module Gyre
  class Transport
    # Taken by a fiber, and given back by the same one.
    class Turn < Thread::Mutex
      def initialize
        super
        @waiters = Waiters.new(self)
      end

      # @param timeout_s [Numeric, nil] nil: without end
      # @return [Boolean] whether it may be free now; false: the time is over
      def wait(timeout_s)
        @waiters.wait(timeout_s) { locked? }
      end

      # Wakes another one in the place of a caller that was woken and cannot take it.
      def pass = @waiters.wake

      # Gives it back.
      def release
        Thread.handle_interrupt(SpinLock::NEVER) do
          unlock
          @waiters.wake
        end
      end
    end
  end
end
