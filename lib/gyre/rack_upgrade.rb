# frozen_string_literal: true

# Rack middleware for Iodine's convention of WebSockets and event streams: an app puts a handler
# into env["rack.upgrade"]. Uses Gyre::WebSocket, Gyre::SSE and Gyre::Broadcast.

require "gyre/broadcast"

module Gyre
  # Serves apps that are written for Iodine or Agoo.
  #
  #   use Gyre::RackUpgrade
  #   run(lambda do |env|
  #     env["rack.upgrade"] = Chat.new if env["rack.upgrade?"] == :websocket
  #     [200, {}, []]
  #   end)
  #
  # A handler may have the methods on_open(client), on_message(client, message), on_drained(client),
  # on_shutdown(client), called before the close when the server stops, and on_close(client).
  class RackUpgrade
    # @param app [#call]
    # @param options (see Gyre::WebSocket.open)
    def initialize(app, **options)
      @app = app
      @options = options
    end

    # @param env [Hash] gets "rack.upgrade?": :websocket, :sse or nil
    # @return [Array] the app's response, unless a handler is set and the status below 300
    def call(env)
      kind = env["rack.upgrade?"] = kind_of(env)
      response = @app.call(env)
      handler = kind && env["rack.upgrade"]
      return response if !handler || response[0].to_i >= 300

      response[2].close if response[2].respond_to?(:close)
      headers = response[1].reject { |name, _| name.match?(/\Acontent-/i) }
      callbacks = Callbacks.new(handler, env)
      return SSE.respond(env, callbacks, wants: WebSocket::Session.wants(callbacks), headers: headers) if kind == :sse

      status, more, body = WebSocket.open(env, callbacks, **@options)
      [status, headers.merge(more), body]
    end

    private

    def kind_of(env)
      return :websocket if WebSocket.requested?(env)

      :sse if env["REQUEST_METHOD"] == "GET" && env["HTTP_ACCEPT"].to_s.start_with?("text/event-stream")
    end

    # Calls the app's handler.
    # @api private
    class Callbacks
      def initialize(handler, env)
        @handler = handler
        @env = env
      end

      def on_open(connection)
        @client = Client.new(connection, @env, @handler)
        tell(:on_open)
      end

      def on_message(_socket, message) = tell(:on_message, message)

      def on_drained(_socket) = tell(:on_drained)

      def on_shutdown(_connection) = tell(:on_shutdown)

      def on_close(_connection)
        @client.leave
        tell(:on_close)
      end

      def tell(name, *arguments) = @handler.respond_to?(name) && @handler.public_send(name, @client, *arguments)
    end
    private_constant :Callbacks

    # The WebSocket or event stream that a handler gets. Any thread may use it.
    class Client
      # @return [Hash] the request's
      attr_reader :env
      # @return [Object] the app's
      attr_reader :handler

      # @api private
      def initialize(connection, env, handler)
        @connection = connection
        @env = env
        @handler = handler
        @listeners = {}
      end

      # Sends a message; waits while the client is slow.
      # @param message [String]
      # @return [Boolean] false: closed
      def write(message)
        @connection.write(message)
        true
      rescue WebSocket::ClosedError
        false
      end

      # @return [nil]
      def close = @connection.close

      # @return [Boolean]
      def open? = !@connection.closed?

      # @return [Integer] unsent bytes; -1: closed
      def pending = open? ? @connection.pending : -1

      # Subscribes the client, or the block, which then runs instead of sending the message.
      # @param topic (see Gyre::Broadcast.subscribe)
      # @yieldparam topic [String, Symbol, Array]
      # @yieldparam message [String]
      # @return (see Gyre::Broadcast.subscribe)
      def subscribe(topic, &block)
        return Broadcast.subscribe(topic, @connection) unless block

        unsubscribe(topic)
        @listeners[topic] = Broadcast::Listener.new(@connection) { |message| block.call(topic, message) }
        Broadcast.subscribe(topic, @listeners[topic])
      end

      # (see Gyre::Broadcast.unsubscribe)
      def unsubscribe(topic) = Broadcast.unsubscribe(topic, @listeners.delete(topic) || @connection)

      # @api private
      def leave = @listeners.keys.each { |topic| unsubscribe(topic) }

      # (see Gyre::Broadcast.publish)
      def publish(topic, message) = Broadcast.publish(topic, message)
    end
  end
end
