# frozen_string_literal: true

# Threads and fibers that wait for a log client's sender: for room, acknowledgements or a
# connection. Belongs to one Gyre::Log::Sender.

require "gyre/clock"

module Gyre
  module Log
    class Waiters
      # Seconds between checks without a notification.
      RECHECK_S = 1.0

      def initialize
        @mutex = Mutex.new
        @changed = ConditionVariable.new
        @count = 0
      end

      # Returns the block's first true value; false after the timeout. Raises ThreadError in a
      # signal handler.
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

      # Makes all waiters check their conditions, including waits that are just starting.
      def notify
        @mutex.synchronize { @changed.broadcast } if @count.positive?
      end

      private

      # Ruby 3.1 returns without the mutex if an exception ends a fiber's wait.
      def rest(seconds)
        @changed.wait(@mutex, seconds)
      ensure
        @mutex.lock unless @mutex.owned?
      end
    end
  end
end
