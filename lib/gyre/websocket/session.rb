# frozen_string_literal: true

# Runs a WebSocket's app code for ext/gyre/websocket/connection.c: one method at a time, each in a
# fiber. Handles its exceptions.

require "gyre/errors"

module Gyre
  class WebSocket
    # A handler's methods are called for events; a block runs once, by a session.
    module Session
      # Flags as in websocket.h; without any, the code itself reads.
      MESSAGES = 1
      DRAINED = 2
      CLOSE = 4
      STORAGE = Fiber.method_defined?(:storage)
      private_constant :MESSAGES, :DRAINED, :CLOSE, :STORAGE

      class << self
        # Returns the events that a handler wants.
        def wants(handler)
          raise ArgumentError, "a handler of WebSockets needs on_message" unless handler.respond_to?(:on_message)

          MESSAGES | (handler.respond_to?(:on_drained) ? DRAINED : 0) | (handler.respond_to?(:on_close) ? CLOSE : 0)
        end

        # Calls a socket's handler, then those of the others that are due in this turn: until their
        # code waits, they share a fiber.
        def serve(socket)
          thread, fiber = Thread.current, Fiber.current
          while socket
            handler, clean = socket.handler, nil
            begin
              while (event = event_of(socket))
                begin
                  if event.is_a?(String)
                    handler.on_message(socket, event)
                  else
                    tell(handler, event, socket)
                  end
                rescue Exception => error # rubocop:disable Lint/RescueException -- whatever an app raises, the server lives
                  failed(socket, error)
                end
              end
              clean = thread.keys.empty? && !(STORAGE && fiber.storage)
            ensure
              socket = socket.over(clean)
            end
          end
        end

        # Returns the next event. A stop during its wait closes the socket; on_close still follows.
        def event_of(socket)
          socket.event
        rescue Gyre::Stop
          socket.close(1001)
          socket.event
        end

        # All methods but on_message are optional.
        def tell(handler, event, socket)
          case event
          when :on_open then handler.on_open(socket) if handler.respond_to?(:on_open)
          when :on_drained then handler.on_drained(socket)
          else handler.on_close(socket)
          end
        end

        # Handles the app's exception; a close by the client is not the app's fault.
        def failed(socket, error)
          raise error if error.is_a?(SystemExit) || error.is_a?(SignalException)
          return socket.close(1001) if error.is_a?(Gyre::Stop)
          return if error.is_a?(ClosedError) && socket.closed?

          socket.report("#{socket.label}: unhandled in the app: #{error.full_message(highlight: false, order: :top)}")
          socket.close(1011)
        end
      end

      # Reads in one fiber.
      class Block
        # `stays`: the socket outlives the block.
        def initialize(block, stays: false)
          @block = block
          @stays = stays
        end

        def on_open(socket)
          block, @block = @block, nil # a stream that stays keeps nothing of it
          block.call(socket)
          socket.close unless @stays
        end
      end
    end
  end
end
