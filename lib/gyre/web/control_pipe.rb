# frozen_string_literal: true

# A pipe that carries commands from signal handlers and other threads to the task that runs the
# server. A pipe and not a queue: a signal handler may take no lock, and a byte wakes every kind of
# loop. Gyre::Web::Server owns one; the meaning of the messages is the server's.

require "gyre/loop/wakeup_pipe"
require "io/wait"

module Gyre
  module Web
    # Messages are Symbols out of a list given at the start.
    class ControlPipe
      # @param messages [Array<Symbol>] at most 256
      def initialize(*messages)
        @messages = messages
        @reader, @writer = Loop::WakeupPipe.open
      end

      # Leaves a message. May be called from any thread and from a signal handler; it never waits.
      #
      # @param message [Symbol]
      # @return [void]
      def post(message)
        @writer.write_nonblock(@messages.index(message).chr, exception: false)
      rescue IOError, Errno::EPIPE
        nil # closed: the server has ended, nothing reads any more
      end

      # Waits for the next message; other fibers run meanwhile.
      #
      # @param timeout_s [Float, nil]
      # @return [Symbol, nil] nil when the time is over
      def take(timeout_s = nil)
        return unless @reader.wait_readable(timeout_s)

        byte = @reader.read_nonblock(1, exception: false)
        byte == :wait_readable ? take(timeout_s) : @messages[byte.ord]
      end

      # @return [void]
      def close
        @reader.close
        @writer.close
      end
    end
  end
end
