# frozen_string_literal: true

# Lets a log client's thread wait for a connection, a time, or a call of another thread. Belongs to
# one Gyre::Log::Delivery.

require "gyre/loop/wakeup_pipe"

module Gyre
  module Log
    class Wakeup
      # Allows the thread to be killed inside the block only.
      def self.interruptible(&block) = Thread.handle_interrupt(Object => :immediate, &block)

      def initialize
        @reader, @writer = Loop::WakeupPipe.open
      end

      # Ends the wait. Signal handlers may call it.
      def call
        @writer.write_nonblock("!", exception: false)
      rescue IOError, Errno::EPIPE
        nil # the thread has ended, or is about to
      end

      # Waits up to `left` seconds; nil: no limit.
      def wait(left, connection = nil)
        wants = connection ? connection.wants : {}
        Wakeup.interruptible do
          IO.select([@reader, *(connection if wants[:read])], wants[:write] ? [connection] : nil, nil, left&.clamp(0, nil))
        end
      end

      # Forgets earlier calls, which would end the next wait.
      def clear
        nil while @reader.read_nonblock(4096, exception: false).is_a?(String)
      end

      def close = [@reader, @writer].each(&:close)
    end
  end
end
