# frozen_string_literal: true

# WebSockets (RFC 6455, 8441) in a Rack app, over HTTP/1.1 and HTTP/2. An app responds with the
# result of Gyre::WebSocket.open; the connection or stream then leaves HTTP. C (ext/gyre/websocket/)
# defines read, write and other methods of an open socket.

require "gyre/net"
require "gyre/parts"
require "gyre/websocket/addresses"
require "gyre/websocket/compression"
require "gyre/websocket/handshake"
require "gyre/websocket/limits"
require "gyre/websocket/session"

Gyre::Loop.define_native(:websocket)

module Gyre
  # An open WebSocket. Any fiber or thread may call its methods.
  #
  #   run(lambda do |env|
  #     Gyre::WebSocket.open(env) do |socket|
  #       while (message = socket.read)
  #         socket.write("echo: #{message}")
  #       end
  #     end
  #   end)
  #
  # For {#read} and {#write}, UTF-8 Strings are text and BINARY Strings are binary data.
  # @!method read
  #   Waits for the next message. While no fiber reads, the client cannot send more.
  #   @return [String, nil] nil: closed, by either side
  # @!method write(message)
  #   Sends a message; waits while the client is slow (output_bytes_limit).
  #   @param message [String]
  #   @return [Integer] its bytes
  #   @raise [ClosedError] closed before everything was sent
  #   @raise [ArgumentError] neither valid UTF-8 nor BINARY
  # @!method closed?
  #   @return [Boolean] whether either side has closed it, or the connection has ended
  # @!method code
  #   @return [Integer, nil] the client's close code; 1005: none, 1006: lost; nil: open
  # @!method reason
  #   @return [String, nil] the close's text; nil while it is open
  # @!method pending
  #   @return [Integer] unsent bytes
  # @!method protocol
  #   @return [String, nil] the negotiated subprotocol
  class WebSocket
    # Raised by methods that send, if the socket is closed.
    class ClosedError < IOError; end

    # Methods of WebSockets of a server and of a client.
    module Messages
      # @yieldparam message [String] each, until closed
      # @return [self, Enumerator]
      def each
        return enum_for(:each) unless block_given?

        while (message = read)
          yield message
        end
        self
      end

      # @return [String]
      def inspect = "#<#{self.class} #{closed? ? ["closed", code, reason].compact.join(" ").strip : "open"}>"
    end
    include Messages

    REASON_BYTES_LIMIT = 123
    private_constant :REASON_BYTES_LIMIT

    extend Parts.unloaded("gyre/websocket/client", :connect, :keep_connected)

    class << self
      # Makes the response to a request for a WebSocket, or a refusal (400, 403, 426, 429). The
      # socket is closed when the block returns. A handler holds no fiber between events.
      # @param env [Hash] of the request
      # @param handler [#on_message, nil] instead of a block; also on_open, on_drained, on_close,
      #   on_shutdown (before the close at the server's stop)
      # @param protocols [Array<String>] supported subprotocols, the preferred first
      # @param origins [Array<String, Regexp>, :any, nil] sites; nil: the server's own
      # @param compress [Boolean, :takeover] RFC 7692; :takeover: with context, 50 KB a socket
      # @param address_limit [Integer, nil] open sockets per client address and process; beyond: 429
      # @param limits of {Limits}; others are the server's (websocket_message_bytes_limit, …)
      # @yieldparam socket [WebSocket]
      # @return [Array] status, headers, body
      # @raise [ArgumentError] not exactly one of block and handler; an unknown limit
      def open(env, handler = nil, protocols: [], origins: nil, compress: false, address_limit: nil, **limits, &block)
        raise ArgumentError, "a WebSocket needs a block or a handler" unless handler.nil? ^ block.nil?

        limits = Limits::TABLE.read(limits) unless limits.empty?
        compression = Compression.negotiate(env["HTTP_SEC_WEBSOCKET_EXTENSIONS"], compress)
        handshake = Handshake.new(env, protocols, origins)
        return handshake.refusal if handshake.refusal

        if address_limit && !Addresses.reserve(env, address_limit)
          return handshake.refuse(429, "this address has too many WebSockets")
        end

        headers = handshake.headers
        headers["sec-websocket-extensions"] = compression.response if compression
        session = handler || Session::Block.new(block)
        wants = handler ? Session.wants(handler) : 0
        upgrade = lambda do |exchange|
          socket = take_over(exchange, session, wants, limits, handshake.protocol, compression&.agreed, false)
          socket.join(Addresses.sockets(env)) if address_limit
        end
        [101, headers.merge("rack.gyre.upgrade" => upgrade), []]
      end

      # Checks a close's code and reason. Returns the reason in UTF-8.
      # @api private
      def check_close(code, reason)
        unless code.is_a?(Integer) && (code.between?(1000, 1003) || code.between?(1007, 1014) || code.between?(3000, 4999))
          raise ArgumentError, "a WebSocket cannot be closed with the code #{code.inspect}"
        end

        reason = reason.encoding == Encoding::BINARY ? reason.dup.force_encoding(Encoding::UTF_8) : reason.encode(Encoding::UTF_8)
        raise ArgumentError, "the reason is not UTF-8" unless reason.valid_encoding?
        raise ArgumentError, "the reason has more than #{REASON_BYTES_LIMIT} bytes" if reason.bytesize > REASON_BYTES_LIMIT

        reason
      end

      # @param env [Hash]
      # @return [Boolean] whether the request is for a WebSocket, even a faulty one
      def requested?(env) = Handshake.requested?(env)
    end

    # Measures the time from a ping to its pong. A pong is not seen while a message waits unread.
    # @param timeout [Numeric, nil] seconds
    # @return [Float] seconds
    # @raise [TimeoutError]
    # @raise [ClosedError]
    def ping(timeout: nil) = ping_within(timeout)

    # Closes the socket without waiting for the client, which must close its side within
    # close_timeout_s. May be called again.
    # @param code [Integer] 1000 (done), 1001 (going away), 3000–4999 (the app's); RFC 6455, 7.4
    # @param reason [String] at most 123 bytes
    # @return [nil]
    def close(code = 1000, reason = "") = close_with(code, WebSocket.check_close(code, reason))

    # For {Broadcast.disconnect}.
    # @api private
    def disconnect = close(1008, "disconnected")

    # Shown by print_hierarchy.
    # @api private
    def label = "a WebSocket"
  end
end
