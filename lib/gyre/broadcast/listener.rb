# frozen_string_literal: true

# A subscriber of Broadcast that belongs to a socket and takes messages in its loop's thread, for
# Live and RackUpgrade.

module Gyre
  module Broadcast
    class Listener
      # A block gets each message, one at a time. Subclasses define `take` instead.
      def initialize(socket, &block)
        @socket = socket
        @thread = Thread.current
        @block = block
        @waiting = []
      end

      def join(subscribers) = !@socket.closed? && (subscribers[self] = true)

      def leave(subscribers) = subscribers.delete(self)

      def foreign? = Thread.current != @thread

      def thread_calls = @socket.thread_calls

      # Returns nil in another thread, like WebSocket#offer. Each listener has its own String.
      def deliver(message) = foreign? ? nil : take(message.data.dup)

      def disconnect = @socket.disconnect

      def behind? = @socket.behind?

      def pace = @socket.pace

      private

      def take(data)
        @waiting << data
        thread_calls.post(method(:run)) if @waiting.size == 1
        true
      end

      # A message leaves the queue after its block, so that only one block runs.
      def run
        until @waiting.empty?
          WebSocket::Session.guard(@socket) { @block.call(@waiting.first) }
          @waiting.shift
        end
      end
    end
  end
end
