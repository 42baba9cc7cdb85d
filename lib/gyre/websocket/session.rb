# frozen_string_literal: true

# The app's code of one WebSocket, as ext/gyre/websocket/session.c calls it: one method at a time,
# each in a fiber. Handles what that code raises. Reads and writes nothing.

require "gyre/errors"

module Gyre
  class WebSocket
    # The common part of Block and Handler.
    class Session
      # Flags of {#wants}, as in websocket.h.
      MESSAGES = 1
      DRAINED = 2
      CLOSE = 4
      private_constant :MESSAGES, :DRAINED, :CLOSE

      private

      # The app is not to blame if the client has closed the socket.
      def guard(socket)
        yield
      rescue SystemExit, SignalException
        raise
      rescue Gyre::Stop
        socket.close(1001)
      rescue Exception => error # rubocop:disable Lint/RescueException -- whatever an app raises, the server lives
        return if error.is_a?(ClosedError) && socket.closed?

        socket.report("a WebSocket: unhandled in the app: #{error.full_message(highlight: false, order: :top)}")
        socket.close(1011)
      end

      # Reads by itself, in one fiber.
      class Block < Session
        def initialize(block)
          super()
          @block = block
        end

        def wants = 0

        def on_open(socket)
          guard(socket) do
            @block.call(socket)
            socket.close
          end
        end
      end

      # Called for each event.
      class Handler < Session
        def initialize(handler)
          super()
          raise ArgumentError, "a handler of WebSockets needs on_message" unless handler.respond_to?(:on_message)

          @handler = handler
        end

        def wants
          MESSAGES | (@handler.respond_to?(:on_drained) ? DRAINED : 0) | (@handler.respond_to?(:on_close) ? CLOSE : 0)
        end

        def on_open(socket) = guard(socket) { @handler.on_open(socket) if @handler.respond_to?(:on_open) }

        def on_message(socket, message) = guard(socket) { @handler.on_message(socket, message) }

        def on_drained(socket) = guard(socket) { @handler.on_drained(socket) }

        def on_close(socket) = guard(socket) { @handler.on_close(socket) }
      end
    end
  end
end
