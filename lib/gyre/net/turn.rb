# frozen_string_literal: true

# The turn to read from a transport or write to it: a Mutex with a timeout. transport_object.c makes
# it for the first waiting reader or writer, takes it (rb_mutex_trylock), and waits here.

require "gyre/sync/waiters"

module Gyre
  class Transport
    # The fiber that took it gives it back.
    class Turn < Thread::Mutex
      def initialize
        super
        @waiters = Waiters.new(self)
      end

      # Returns false after the timeout, true if it may be free.
      def wait(timeout_s) = @waiters.wait(timeout_s) { locked? }

      # Wakes another caller if the woken one cannot take it.
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
