# frozen_string_literal: true

# WebSockets (RFC 6455, 8441) in a Rack app, over HTTP/1.1 and HTTP/2, plain or TLS. An app responds
# with what Gyre::WebSocket.open returns; then the connection or the stream leaves HTTP. Frames are
# C's (ext/gyre/websocket/), which defines read, write and the rest of an open socket.

require "gyre/net"
require "gyre/websocket/addresses"
require "gyre/websocket/compression"
require "gyre/websocket/handshake"
require "gyre/websocket/limits"
require "gyre/websocket/session"

module Gyre
  # An open WebSocket. Every fiber and every thread may call its methods.
  #
  #   run(lambda do |env|
  #     Gyre::WebSocket.open(env) do |socket|
  #       while (message = socket.read)
  #         socket.write("echo: #{message}")
  #       end
  #     end
  #   end)
  #
  # Text is a String in UTF-8, binary data one in BINARY: read returns either, and write sends a
  # frame of the String's kind.
  #
  # @!method read
  #   Waits for the next message. The client is held up while nothing reads.
  #   @return [String, nil] nil: closed, by either side
  # @!method write(message)
  #   Sends a message; waits while the client has not taken what was sent (output_bytes_limit).
  #   @param message [String]
  #   @return [Integer] its bytes
  #   @raise [ClosedError] closed before all was sent
  #   @raise [ArgumentError] neither valid UTF-8 nor BINARY
  # @!method closed?
  #   @return [Boolean] whether either side has closed it, or the connection has ended
  # @!method code
  #   @return [Integer, nil] of its end: the client's close, 1005 for one without a code, 1006 for a
  #     connection that ended without one; nil before the end
  # @!method reason
  #   @return [String, nil] the same: the close's text
  # @!method pending
  #   @return [Integer] bytes that the client's socket has not taken
  # @!method protocol
  #   @return [String, nil] the subprotocol that was agreed on
  class WebSocket
    # Raised by methods that send when the socket is closed.
    class ClosedError < IOError; end

    NO_LIMITS_GIVEN = Limits.new
    REASON_BYTES_LIMIT = 123
    private_constant :NO_LIMITS_GIVEN, :REASON_BYTES_LIMIT

    class << self
      # Makes the response to a request for a WebSocket; to any other one a refusal (400, 403, 426,
      # 429). A block has the socket and its own fiber: the socket is closed when the block returns.
      # A handler holds no fiber while it waits.
      #
      # @param env [Hash] of the request
      # @param handler [#on_message, nil] without a block. Called one at a time:
      #   on_open(socket), on_message(socket, message), on_drained(socket) once a slow client has
      #   taken everything, on_close(socket). All but on_message are optional, and each may wait
      # @param protocols [Array<String>] subprotocols that the app speaks, the preferred first
      # @param origins [Array<String, Regexp>, :any, nil] sites whose pages may open it, like
      #   "https://example.com"; nil: only the server's own. Clients without an Origin are not
      #   browsers, and are let in
      # @param compress [Boolean, :takeover] whether longer messages are compressed for clients that
      #   can (RFC 7692). true: each message is compressed by itself, and an idle socket holds no
      #   memory for it; :takeover: with the earlier messages as context, for which a socket holds
      #   some 50 KB
      # @param address_limit [Integer, nil] the most open sockets of one client address in this
      #   process, counting those that were opened with a limit; further ones get 429
      # @param limits (see Gyre::WebSocket::Limits)
      # @yieldparam socket [WebSocket]
      # @return [Array] status, headers, body
      # @raise [ArgumentError] neither a block nor a handler, or both; an unknown limit
      def open(env, handler = nil, protocols: [], origins: nil, compress: false, address_limit: nil, **limits, &block)
        raise ArgumentError, "a WebSocket needs a block or a handler" unless handler.nil? ^ block.nil?

        limits = limits.empty? ? NO_LIMITS_GIVEN : Limits.new(**limits)
        compression = Compression.negotiate(env["HTTP_SEC_WEBSOCKET_EXTENSIONS"], compress)
        handshake = Handshake.new(env, protocols, origins)
        return handshake.refusal if handshake.refusal

        if address_limit && Addresses.sockets(env).size >= address_limit
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

      # Returns the reason in UTF-8.
      # @api private
      def check_close(code, reason)
        unless code.is_a?(Integer) && (code.between?(1000, 1003) || code.between?(1007, 1014) || code.between?(3000, 4999))
          raise ArgumentError, "a WebSocket cannot be closed with the code #{code.inspect}"
        end

        reason = reason.encode(Encoding::UTF_8)
        raise ArgumentError, "the reason has more than #{REASON_BYTES_LIMIT} bytes" if reason.bytesize > REASON_BYTES_LIMIT

        reason
      end

      # @param env [Hash]
      # @return [Boolean] whether the request is for a WebSocket, whatever its other headers are
      def requested?(env)
        Handshake.requested?(env)
      end
    end

    # @yieldparam message [String] until it is closed
    # @return [self, Enumerator]
    def each
      return enum_for(:each) unless block_given?

      while (message = read)
        yield message
      end
      self
    end

    # Sends a ping and waits for its pong. The server does so by itself (idle_timeout_s); this tells
    # how long it takes. While a message waits to be read, no pong is seen.
    #
    # @param timeout [Numeric, nil] seconds
    # @return [Float] seconds
    # @raise [TimeoutError]
    # @raise [ClosedError]
    def ping(timeout: nil)
      ping_within(timeout)
    end

    # Closes it, without waiting for the client, which has close_timeout_s to close its side. May be
    # called again.
    #
    # @param code [Integer] 1000 (done), 1001 (going away), 3000 to 4999 (the app's own), … (RFC
    #   6455, section 7.4)
    # @param reason [String] at most 123 bytes
    # @return [nil]
    def close(code = 1000, reason = "")
      close_with(code, WebSocket.check_close(code, reason))
    end

    # Sends a {Broadcast::Message} without waiting. True: sent; false: closed, or too slow; nil: in
    # another thread than the loop's.
    # @api private
    def deliver(message) = offer(message.frame(window_bits))

    # For {Broadcast.disconnect}.
    # @api private
    def disconnect = close(1008, "disconnected")

    # Named in print_hierarchy.
    # @api private
    def label = "a WebSocket"

    # @return [String]
    def inspect
      "#<#{self.class} #{closed? ? ["closed", code, reason].compact.join(" ").strip : "open"}>"
    end
  end
end
