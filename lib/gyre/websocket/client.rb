# frozen_string_literal: true

# The client's side of WebSockets, over HTTP/1.1. Loaded by `require "gyre/websocket/client"`. The
# HTTP client sends the request; C handles frames (ext/gyre/websocket/frames.c). Never compresses.

require "gyre/http/client"
require "gyre/net/backoff"
require "gyre/websocket"

module Gyre
  class WebSocket
    class << self
      # Opens a WebSocket at a server.
      #
      #   Gyre::WebSocket.connect("wss://example.com/chat") do |socket|
      #     socket.write("hello")
      #     puts socket.read
      #   end
      # @param url [String] ws://… or wss://…
      # @param client [HTTP::Client, nil] with its own TLS, proxy or cookies; made with http2: false
      # @param protocols [Array<String>] subprotocols, the preferred first
      # @param headers [Hash{String => String}] of the request; "origin" for servers that want one
      # @param timeout_s [Numeric, nil] for the connection and handshake
      # @param limits message_bytes_limit, idle_timeout_s, close_timeout_s of {Limits}
      # @yieldparam socket [Client] closed after the block
      # @return [Client, Object] or the block's value
      # @raise [HTTP::Client::Error] no connection, or a refusal
      # @raise [ProtocolError] the server speaks no WebSocket
      def connect(url, client: nil, protocols: [], headers: {}, timeout_s: 10, **limits)
        client ||= Ractor.current[:gyre_websocket_client] ||= HTTP::Client.new(http2: false)
        socket = Client.new(client, url, protocols, headers, timeout_s, Limits.new(**limits))
        return socket unless block_given?

        begin
          yield socket
        ensure
          socket.close
        end
      end

      # Connects like {connect}. Connects again if the connection was lost, or if the server closed
      # it for a restart or error (1001, 1011 to 1014). The pause doubles with each failure, up to a
      # minute. Calls the block with each new socket, so that the block can subscribe again.
      # Messages that the server sends in between are lost.
      #
      #   Gyre::WebSocket.keep_connected("wss://example.com/chat") do |socket|
      #     socket.each { |message| puts message }
      #   end
      # @param url [String]
      # @param retry_s [Numeric] the first pause
      # @param options of {connect}
      # @yieldparam socket [Client] closed after the block
      # @return [Object] the block's value, once the connection was closed otherwise
      # @raise [HTTP::Client::Error] the first connection fails, or a later one is refused, except
      #   with 429 or 5xx
      # @raise [ProtocolError] the server speaks no WebSocket
      def keep_connected(url, retry_s: 1, **options)
        backoff = Backoff.new(retry_s, [retry_s, 60].max, jitter: 0.25)
        socket = connect(url, **options)
        loop do
          value = use(socket) { yield socket }
          return value unless socket.lost?

          begin
            sleep(backoff.failed)
            socket = connect(url, **options)
            backoff.succeeded
          rescue HTTP::Client::ConnectionError, HTTP::Client::TimeoutError
            retry
          rescue HTTP::Client::StatusError => error
            retry if error.response.status >= 500 || error.response.status == 429
            raise
          end
        end
      end

      private

      def use(socket)
        yield
      rescue ClosedError => error
        (socket.leave && raise) unless socket.raised?(error) # another socket has closed

        socket.each { nil } # finds the cause
        raise unless socket.lost?
      ensure
        socket.close
      end
    end

    # An open WebSocket. Any fiber or thread may call its methods, but only one may read at a time.
    # Answers pings and sees pongs only during a read.
    class Client
      include Messages

      TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
      LOST = [1001, 1006, *1011..1014].freeze
      private_constant :TEXT, :BINARY, :CLOSE, :PING, :PONG, :LOST

      # @return [Integer, nil] the server's close code; 1005: none, 1006: lost; nil: open
      attr_reader :code
      # @return [String, nil] the close's text; nil before
      attr_reader :reason
      # @return [String, nil] the negotiated subprotocol
      attr_reader :protocol

      # @api private
      def initialize(client, url, protocols, headers, timeout_s, limits)
        @limits = limits
        @frames = Frames.new(limits.message_bytes_limit)
        @lock = Thread::Mutex.new
        @heard = Thread::ConditionVariable.new
        @pinged = @ponged = 0
        @closing = @reading = false
        @transport = agree(client, url, protocols, headers, timeout_s)
        @transport.read_timeout_s = limits.idle_timeout_s && (limits.idle_timeout_s / 2.0)
        @transport.write_timeout_s = limits.idle_timeout_s
      end

      # Waits for the next message.
      # @return [String, nil] UTF-8 or BINARY; nil: closed, by either side
      def read
        while (kind, payload, code = receive)
          case kind
          when :message then return payload unless @closing
          when :ping then send_frame(PONG, payload)
          when :pong then pong(payload)
          when :close then answer(code, payload, code == 1005 ? "" : [code].pack("n"))
          else answer(code, payload, [code].pack("n") + payload.b)
          end
        end
      end

      # Sends a message; waits while the server takes nothing.
      # @param message [String] valid UTF-8 becomes text, BINARY binary data
      # @return [Integer] its bytes
      # @raise [ClosedError]
      # @raise [ArgumentError] neither valid UTF-8 nor BINARY
      def write(message)
        binary = message.encoding == Encoding::BINARY
        message = message.encode(Encoding::UTF_8) unless binary
        raise ArgumentError, "a message is valid UTF-8, or BINARY" unless binary || message.valid_encoding?
        raise closed_error unless !closed? && send_frame(binary ? BINARY : TEXT, message)

        message.bytesize
      rescue EncodingError
        raise ArgumentError, "a message is valid UTF-8, or BINARY"
      end

      # Sends a ping and waits for its pong. Another fiber or thread must read meanwhile.
      # @param timeout [Numeric, nil] seconds
      # @return [Float] seconds
      # @raise [TimeoutError, ClosedError]
      def ping(timeout: nil)
        start = Clock.now
        number = @lock.synchronize { @pinged += 1 }
        send_frame(PING, [number].pack("N"))
        @lock.synchronize do
          until @ponged >= number
            raise closed_error if closed?

            left = timeout && (start + timeout - Clock.now)
            raise TimeoutError, "no pong within #{timeout} s" if left && left <= 0

            @heard.wait(@lock, left)
          end
        end
        Clock.now - start
      end

      # Closes the socket, and waits up to close_timeout_s for the server's close. Drops messages
      # that come meanwhile. May be called again.
      # @param code [Integer] 1000 (done), 3000 to 4999 (the app's own); RFC 6455, section 7.4
      # @param reason [String] at most 123 bytes
      # @return [nil]
      def close(code = 1000, reason = "")
        reason = WebSocket.check_close(code, reason)
        return if closed?

        @closing = true
        @close_by = Clock.now + @limits.close_timeout_s if @limits.close_timeout_s
        @transport.read_timeout_s = @transport.write_timeout_s = @limits.close_timeout_s
        begin
          send_frame(CLOSE, [code].pack("n") + reason.b)
          @reading ? await_end : read
        rescue Gyre::TimeoutError => error
          raise if error.deadline
        ensure
          finish(1006, "the server did not close") unless @code
        end
        nil
      end

      # @return [Boolean] whether either side has closed it, or the connection has ended
      def closed? = @closing || !@code.nil?

      # Closes without waiting for the server's close.
      # @api private
      def leave
        send_frame(CLOSE, [1000].pack("n")) unless closed?
        finish(1000, "")
        true
      end

      # @api private
      def raised?(error) = error.equal?(@closed_error)

      # @return [Boolean] whether another connection may work ({WebSocket.keep_connected})
      def lost? = !@closing && LOST.include?(@code)

      private

      def closed_error = @closed_error ||= ClosedError.new("the WebSocket is closed")

      # --- the handshake (RFC 6455, section 4.1) ---

      def agree(client, url, protocols, headers, timeout_s)
        raise ArgumentError, "not an address of a WebSocket: write ws://host/path or wss://host/path" unless url.match?(%r{\Awss?://}i)

        key = [Random.urandom(16)].pack("m0")
        fields = { **headers, "connection" => "Upgrade", "upgrade" => "websocket", "sec-websocket-version" => "13", "sec-websocket-key" => key }
        fields["sec-websocket-protocol"] = protocols.join(", ") unless protocols.empty?
        response = client.stream("GET", url.sub(/\Aws/i, "http"), headers: fields, timeout_s: timeout_s)
        fault = fault_of(response.check, key, protocols)
        raise ProtocolError, "#{response.url[/[^?]*/]} opened no WebSocket: #{fault}" if fault

        @protocol = response["sec-websocket-protocol"]
        agreed = response.connection.transport
      ensure
        response&.close unless agreed
        response.connection.close if response && response.status == 101 && !agreed
      end

      def fault_of(response, key, protocols)
        return "it responded with #{response.status}" if response.status != 101
        return "its Upgrade is #{response["upgrade"].inspect}" unless response["upgrade"].to_s.casecmp?("websocket")
        return "its Connection has no Upgrade" unless response["connection"].to_s.match?(/(?:\A|,)\s*upgrade\s*(?:,|\z)/i)
        return "its Sec-WebSocket-Accept is wrong" unless response["sec-websocket-accept"] == Handshake.accept(key)
        return "it uses extensions that were not offered" if response["sec-websocket-extensions"]

        "it chose a subprotocol that was not offered" if (name = response["sec-websocket-protocol"]) && !protocols.include?(name)
      end

      # Returns the kind, payload and code of the next message or control frame; nil after the end.
      def receive
        return if @code

        @reading = true
        late = false
        until (event = @frames.next)
          return finish(1006, "the server did not close") if @close_by && Clock.now > @close_by

          begin
            bytes = @transport.read_partial
          rescue Gyre::TimeoutError
            return finish(1006, "the server sent nothing") if late || @closing

            late = send_frame(PING, "")
            next
          end
          return finish(1006) unless bytes

          late = false
          @frames << bytes
        end
        event
      rescue SystemCallError, IOError, TLS::Error => error
        finish(1006, error.message)
      ensure
        @reading = false
      end

      # Sends a frame; false if it was not sent completely.
      def send_frame(opcode, payload)
        return false if @code

        @transport.write(Frames.frame(opcode, payload, Random.urandom(4)))
        true
      rescue SystemCallError, IOError, TLS::Error
        false # the reader finds the cause
      end

      # Waits for the end, but only until @close_by, because the reading fiber may wait longer.
      def await_end
        @lock.synchronize do
          until @code || (left = @close_by && (@close_by - Clock.now))&.negative?
            @heard.wait(@lock, left)
          end
        end
      end

      def pong(payload)
        @lock.synchronize do
          @ponged = payload.unpack1("N") if payload.bytesize == 4
          @heard.broadcast
        end
      end

      def answer(code, reason, payload)
        send_frame(CLOSE, payload) unless @closing
        finish(code, reason)
      end

      # Returns nil.
      def finish(code, reason = nil)
        @code ||= code
        @reason ||= reason
        @transport.close
        @lock.synchronize { @heard.broadcast }
        nil
      end
    end
  end
end
