# frozen_string_literal: true

# A cable's WebSocket, in place of ActionCable::Connection::ClientSocket. It is also the handler of
# the Gyre::WebSocket, whose events come one at a time and hold no fiber between them.

require "gyre/websocket"

module Gyre
  module Web
    module Cable
      class Socket
        # The longest message, as websocket-driver has it.
        MESSAGE_BYTES_LIMIT = 0x3ffffff
        # A cable keeps its request's environment: these parts of it are of no use to a cable.
        UNUSED = %w[rack.hijack rack.hijack? rack.response_finished rack.tempfiles rack.after_reply gyre.client_gone gyre.response_trailers
                    rails.rack_logger_tag_count ORIGINAL_SCRIPT_NAME].freeze
        # Marks a fiber that runs an event of this owner.
        HERE = :gyre_cable_event

        # Prepended to the class that creates the WebSocket.
        module Request
          # Behind Rails' middleware the environment has the application's settings already, and
          # needs no copy with them.
          def request = @request ||= env.key?("action_dispatch.routes") ? ::ActionDispatch::Request.new(env) : super
        end

        # Returns true for the first work of an event of this connection, which runs in the event's
        # fiber. Removes the mark.
        def self.claim_event(connection)
          here = Thread.current[HERE].equal?(connection)
          Thread.current[HERE] = nil if here
          here
        end

        # @return [Gyre::WebSocket, nil] once it is open
        attr_reader :raw
        # @return [Gyre::Web::Server, nil]
        attr_reader :server

        # `owner`: the connection or, from Rails 8.2, its Server::Socket.
        def initialize(env, owner, protocols)
          @env = env
          @server = env["gyre.server"]
          @owner = owner
          @protocols = protocols
        end

        # True if the connection encodes and sends as Action Cable does, so that a frame may be made
        # for many cables.
        def usual?
          return @usual unless @usual.nil?

          connection = @owner.respond_to?(:connection) ? @owner.connection : @owner
          @usual = @owner.instance_variable_get(:@coder).equal?(::ActiveSupport::JSON) && Cable.own?(@owner.class, :transmit, :encode) &&
                   Cable.own?(connection.class, :transmit, :beat)
        end

        def alive? = @raw ? !@raw.closed? : false

        def protocol = @raw&.protocol

        def transmit(message)
          return false unless alive?

          message = message.is_a?(Array) ? message.pack("C*") : message.to_s
          Broadcast.deliver_to([@raw], message).positive?
        end

        def close(code = nil, reason = nil) = @raw&.close(code || 1000, reason || "")

        def rack_response
          Gyre::WebSocket.open(@env, self, protocols: @protocols, origins: :any, compress: Isolation.setting(:cable_compression, false),
                                           message_bytes_limit: MESSAGE_BYTES_LIMIT)
        end

        def on_open(raw)
          @raw = raw
          @owner.server.executor.adopt(raw)
          UNUSED.each { |key| @env.delete(key) }
          @env.rehash # into a table of the smallest size
          @env = nil
          event { @owner.on_open }
        end

        def on_message(_, message) = event { @owner.on_message(message) }

        def on_close(raw) = event { @owner.on_close(raw.reason, raw.code) }

        private

        def event
          Thread.current[HERE] = @owner
          yield
        ensure
          Thread.current[HERE] = nil
        end
      end
    end
  end
end
