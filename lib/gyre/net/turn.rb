# frozen_string_literal: true

# The turn to read from a transport or write to it: a Mutex with a timeout. transport_object.c makes
# it for the first waiter, takes it (rb_mutex_trylock), and waits here.

require "gyre/sync/waiters"

module Gyre
  class Transport
    # Returned by the fiber that took it.
    class Turn < Thread::Mutex
      def initialize
        super
        @waiters = Waiters.new(self)
      end

      # False after the timeout, true if it may be free.
      def wait(timeout_s) = @waiters.wait(timeout_s) { locked? }

      # Wakes another caller in place of the woken one.
      def pass = @waiters.wake

      def release
        Thread.handle_interrupt(SpinLock::NEVER) do
          unlock
          @waiters.wake
        end
      end
    end
  end
end
