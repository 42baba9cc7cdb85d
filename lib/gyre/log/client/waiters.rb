# frozen_string_literal: true

# Other threads and fibers that wait for a log client's sender: for room, for what it has sent, for
# a connection. Belongs to one Gyre::Log::Sender. It starts no thread.

require "gyre/clock"

module Gyre
  module Log
    # See the head of this file.
    class Waiters
      # How long at most until a waiter checks its condition without a notification.
      RECHECK_S = 1.0
      private_constant :RECHECK_S

      def initialize
        @mutex = Mutex.new
        @changed = ConditionVariable.new
        @count = 0
      end

      # Waits until the block is true.
      # @param timeout_s [Numeric, nil]
      # @param wake [#call] called once others have to notify this one
      # @yieldreturn [Object] false or nil: not yet. It may raise
      # @return what the block returned; false after the time
      # @raise [ThreadError] in a signal handler
      def wait(timeout_s, wake)
        deadline = timeout_s && Clock.now + timeout_s
        @mutex.synchronize do
          @count += 1
          wake.call
          until (result = yield)
            left = deadline ? deadline - Clock.now : RECHECK_S
            return false if left <= 0

            rest([left, RECHECK_S].min)
          end
          result
        ensure
          @count -= 1
        end
      end

      # Has all waiters check their conditions. One that begins to wait just now checks after this.
      def notify
        @mutex.synchronize { @changed.broadcast } if @count.positive?
      end

      private

      # Ruby 3.1 comes back without the mutex when an exception ends the wait of a fiber.
      def rest(seconds)
        @changed.wait(@mutex, seconds)
      ensure
        @mutex.lock unless @mutex.owned?
      end
    end
  end
end
