# frozen_string_literal: true

# The turn to read from a transport, or write to it: a Mutex with a timeout. transport_object.c
# makes it for the first reader or writer that waits, takes it there (rb_mutex_trylock) and waits
# here.

require "gyre/sync/waiters"

module Gyre
  class Transport
    # The taking fiber gives it back.
    class Turn < Thread::Mutex
      def initialize
        super
        @waiters = Waiters.new(self)
      end

      # False if the time is over; true if it may be free.
      def wait(timeout_s) = @waiters.wait(timeout_s) { locked? }

      # Wakes another one instead of a woken caller that cannot take it.
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
