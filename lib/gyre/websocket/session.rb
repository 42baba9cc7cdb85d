# frozen_string_literal: true

# Runs the app's code for a WebSocket: one method at a time, in a fiber. Handles the app's
# exceptions. Called by ext/gyre/websocket/connection.c.

require "gyre/scheduler/job"

module Gyre
  class WebSocket
    # A session is a handler, whose methods are called for events, or a Block, which runs once.
    module Session
      # Flags of the events that a session wants, as in websocket.h. If no flag is set, the session
      # itself reads.
      MESSAGES = 1
      DRAINED = 2
      CLOSE = 4
      SHUTDOWN = 8
      private_constant :MESSAGES, :DRAINED, :CLOSE, :SHUTDOWN

      class << self
        # Returns the flags of the events that a handler wants.
        def wants(handler)
          raise ArgumentError, "a handler of WebSockets needs on_message" unless handler.respond_to?(:on_message)

          { on_drained: DRAINED, on_close: CLOSE, on_shutdown: SHUTDOWN }.sum(MESSAGES) { |name, flag| handler.respond_to?(name) ? flag : 0 }
        end

        # Calls a socket's handler, then the handlers of other sockets that are due in this turn.
        # They share this fiber until one of them waits, but no state: each event begins without.
        def serve(socket)
          while socket
            handler, done = socket.handler, nil
            begin
              while (event = event_of(socket))
                run(handler, event, socket)
              end
              done = true
            ensure
              socket = socket.over(done)
            end
          end
        end

        # Runs the app's code for a socket, as an event (Job.event). Whatever the code raises, the
        # server lives.
        def guard(socket, &code)
          Job.event(&code)
        rescue Exception => error # rubocop:disable Lint/RescueException
          failed(socket, error)
        end

        # Returns the next event. Gyre::Stop during the wait closes the socket; on_close follows.
        def event_of(socket)
          socket.event
        rescue Gyre::Stop
          socket.close(1001)
          socket.event
        end

        # Rails' executor holds up a reload of the code until its event is over, and a block may
        # read messages for hours: it runs without.
        def run(handler, event, socket)
          Job.event(handler.is_a?(Block) ? nil : Job.executor) { tell(handler, event, socket) }
        rescue Exception => error # rubocop:disable Lint/RescueException
          failed(socket, error)
        end

        # All methods but on_message are optional.
        def tell(handler, event, socket)
          case event
          when String then handler.on_message(socket, event)
          when :on_open then handler.on_open(socket) if handler.respond_to?(:on_open)
          when :on_drained then handler.on_drained(socket)
          when :on_shutdown
            handler.on_shutdown(socket)
            socket.close(1001)
          else handler.on_close(socket)
          end
        end

        # True for an `exit` in another thread, which must end the server (HTTP::Service).
        def foreign?(error) = error.backtrace&.none? { |line| line.start_with?(__FILE__) }

        # Reports the app's exception and closes the socket. Ignores a ClosedError of a closed
        # socket.
        def failed(socket, error)
          raise error if error.is_a?(SignalException) || (error.is_a?(SystemExit) && foreign?(error))
          return socket.close(1001) if error.is_a?(Gyre::Stop)
          return if error.is_a?(ClosedError) && socket.closed?

          socket.report("#{socket.label}: unhandled in the app: #{error.full_message(highlight: false, order: :top)}")
          socket.close(1011)
        end
      end

      # A session that runs a block in one fiber; the block reads the messages.
      class Block
        # `stays`: the socket outlives the block.
        def initialize(block, stays: false)
          @block = block
          @stays = stays
        end

        def on_open(socket)
          block, @block = @block, nil # so that a stream that stays does not keep the block alive
          block.call(socket)
          socket.close unless @stays
        end
      end
    end
  end
end
