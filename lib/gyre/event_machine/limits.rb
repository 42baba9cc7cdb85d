# frozen_string_literal: true

# The limits of a descriptor's silence and of its connecting. Made for a connection that has one.

module Gyre
  module EventMachine
    class Limits
      CONNECT_S = 20.0

      # Seconds; 0.0: no limit.
      attr_reader :silence_s, :connect_s

      def initialize(descriptor)
        @descriptor = descriptor
        @silence_s = 0.0
        @connect_s = CONNECT_S
        @timer = nil
      end

      def silence_s=(seconds)
        @silence_s = seconds
        start
      end

      def connect_s=(seconds)
        @connect_s = seconds
        start
      end

      # Replaces the timer, as once the connection is established.
      def start
        cancel
        wait(@descriptor.connecting? ? @connect_s : @silence_s)
      end

      def cancel
        @descriptor.reactor.cancel_timer(@timer) if @timer
        @timer = nil
      end

      private

      def wait(seconds)
        @timer = @descriptor.reactor.add_timer(seconds, method(:check)) if seconds.positive?
      end

      def check
        @timer = nil
        left_s = @descriptor.connecting? ? 0 : @silence_s - @descriptor.idle_s
        left_s.positive? ? wait(left_s) : @descriptor.fail_with(Errno::ETIMEDOUT)
      end
    end
  end
end
