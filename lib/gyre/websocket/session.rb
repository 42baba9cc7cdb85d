# frozen_string_literal: true

# The app's code of one WebSocket, as ext/gyre/websocket/session.c calls it: one method at a time,
# each in a fiber. Handles what that code raises. Reads and writes nothing.

require "gyre/errors"

module Gyre
  class WebSocket
    # A handler is called by itself; a block has a session.
    module Session
      # Flags, as in websocket.h. Without any, the code reads by itself.
      MESSAGES = 1
      DRAINED = 2
      CLOSE = 4
      private_constant :MESSAGES, :DRAINED, :CLOSE

      class << self
        # The events that a handler is called for.
        def wants(handler)
          raise ArgumentError, "a handler of WebSockets needs on_message" unless handler.respond_to?(:on_message)

          MESSAGES | (handler.respond_to?(:on_drained) ? DRAINED : 0) | (handler.respond_to?(:on_close) ? CLOSE : 0)
        end

        # Takes an exception of the app's. The app is not to blame if the client has closed the
        # socket.
        def failed(socket, error)
          raise error if error.is_a?(SystemExit) || error.is_a?(SignalException)
          return socket.close(1001) if error.is_a?(Gyre::Stop)
          return if error.is_a?(ClosedError) && socket.closed?

          socket.report("#{socket.label}: unhandled in the app: #{error.full_message(highlight: false, order: :top)}")
          socket.close(1011)
        end
      end

      # Reads by itself, in one fiber.
      class Block
        # `stays`: the socket outlives the block.
        def initialize(block, stays: false)
          @block = block
          @stays = stays
        end

        def on_open(socket)
          @block.call(socket)
          socket.close unless @stays
        rescue Exception => error # rubocop:disable Lint/RescueException -- whatever an app raises, the server lives
          Session.failed(socket, error)
        end
      end
    end
  end
end
