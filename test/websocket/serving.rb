# frozen_string_literal: true

# A WebSocket client that sees and sends every byte, for the tests of Gyre::WebSocket. No test
# itself.

require "http/serving"
require "zlib"
require "gyre/websocket"

module GyreTest
  # For test classes, beside HTTPServing.
  module WebSocketServing
    include HTTPServing

    TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
    MASK = [0x37, 0xfa, 0x21, 0x3d].freeze
    FIELDS = { connection: "upgrade", upgrade: "websocket", sec_websocket_version: "13",
               sec_websocket_key: "dGhlIHNhbXBsZSBub25jZQ==" }.freeze

    # What came: the head's first byte without FIN tells reserved bits and opcode.
    Frame = Struct.new(:opcode, :payload, :final, :compressed)

    # Bytes of a client's frame.
    def self.frame(opcode, payload = "", final: true, reserved: 0, masked: true)
      head = [(final ? 0x80 : 0) | reserved << 4 | opcode].pack("C")
      size = payload.bytesize
      masking = masked ? 0x80 : 0
      head << if size < 126 then [masking | size].pack("C")
              elsif size < 65_536 then [masking | 126, size].pack("Cn")
              else [masking | 127, size].pack("CQ>")
              end
      return head << payload.b unless masked

      head << MASK.pack("C4") << mask(payload)
    end

    # A word at a time.
    def self.mask(payload)
      key = MASK.pack("C4").unpack1("L")
      (payload.b << "\0\0\0").unpack("L*").map! { |word| word ^ key }.pack("L*").byteslice(0, payload.bytesize)
    end

    # A client's side of permessage-deflate, by Ruby's zlib.
    class Deflate
      TAIL = "\x00\x00\xff\xff".b.freeze

      # keeps: which sides keep their context. bits: the windows of both.
      def initialize(sends: false, receives: false, sent_bits: 15, received_bits: 15)
        @new_deflater = -> { Zlib::Deflate.new(Zlib::BEST_SPEED, -sent_bits) }
        @new_inflater = -> { Zlib::Inflate.new(-received_bits) }
        @deflater = @new_deflater.call if sends
        @inflater = @new_inflater.call if receives
      end

      def deflate(payload)
        (@deflater || @new_deflater.call).deflate(payload, Zlib::SYNC_FLUSH).delete_suffix(TAIL)
      end

      def inflate(payload)
        (@inflater || @new_inflater.call).inflate(payload + TAIL)
      end
    end

    # The client's end of one WebSocket.
    class Peer
      attr_reader :client, :handshake

      def initialize(client, handshake)
        @client = client
        @handshake = handshake
      end

      def write(*bytes)
        @client.write(*bytes)
        self
      end

      def send(opcode, payload = "", **options)
        write(WebSocketServing.frame(opcode, payload, **options))
      end

      def text(payload, **options) = send(TEXT, payload, **options)

      def binary(payload, **options) = send(BINARY, payload.b, **options)

      def ping(payload = "") = send(PING, payload)

      def close(code = nil, reason = "") = send(CLOSE, code ? [code].pack("n") + reason.b : "")

      # @return [Frame]
      def frame
        first, second = @client.take(2).unpack("CC")
        size = second
        size = @client.take(2).unpack1("n") if second == 126
        size = @client.take(8).unpack1("Q>") if second == 127
        payload = @client.take(size)
        Frame.new(first & 15, first & 15 == TEXT && first[6].zero? ? payload.force_encoding("UTF-8") : payload, first[7] == 1, first[6] == 1)
      end

      # @return [String] of a frame that must be a message
      def message
        frame = self.frame
        raise "no message came but #{frame}" unless [TEXT, BINARY].include?(frame.opcode)

        frame.payload
      end

      # @return [Array] code and reason of a close, which must be next; nil without a code
      def closed
        frame = self.frame
        raise "no close came but #{frame}" unless frame.opcode == CLOSE

        code, reason = frame.payload.unpack("na*")
        code && [code, reason.force_encoding("UTF-8")]
      end

      def ended? = @client.ended?

      def silent?(...) = @client.silent?(...)
    end

    # A stream of HTTP/2 with the methods of the HTTP/1 client that a Peer needs.
    class StreamClient
      attr_reader :h2, :stream

      def initialize(h2, stream)
        @h2 = h2
        @stream = stream
      end

      def write(*bytes)
        bytes.each { |part| @stream.write(part) }
        self
      end

      def take(length)
        bytes = @stream.take(length).to_s
        @h2.test.flunk("stream #{@stream.id} ended: #{@stream.error.inspect}; #{@h2}") if bytes.bytesize < length
        bytes
      end

      # The rest of the stream, however it ends.
      def rest
        nil until @stream.over? || !@h2.next_frame
        @stream.received
      end

      def ended? = rest.empty?
      def silent?(...) = @h2.silent?(...)
      def reset = @h2.reset
      def close = @h2.close
    end

    # Fields of a CONNECT for a WebSocket (RFC 8441).
    def connect_fields(path = "/", host: "gyre.test", **fields)
      more = { sec_websocket_version: "13", **fields }.map { |name, value| [name.to_s.tr("_", "-"), value] }
      [%w[:method CONNECT], %w[:protocol websocket], [":scheme", tls? ? "https" : "http"], [":path", path], [":authority", host], *more]
    end

    # @return [Peer] of a stream of this client
    def open_stream(h2, path = "/", **fields)
      stream = h2.open_fields(connect_fields(path, **fields), end_stream: false).head
      assert_equal 200, stream.status, stream.received
      Peer.new(StreamClient.new(h2, stream), stream)
    end

    # @return [Peer] after the handshake, which must succeed
    def open_websocket(served, path = "/", **fields)
      client = connect(served)
      return open_stream(client.h2, path, **fields) if http2?

      response = client.get("GET #{path} HTTP/1.1", **FIELDS, **fields)
      assert_equal 101, response.status, response.body
      Peer.new(client, response)
    end

    # An app of one WebSocket.
    def socket_app(**options, &block)
      ->(env) { Gyre::WebSocket.open(env, **options, &block) }
    end

    # Sends back what comes, until it is closed.
    def echo_app(**options)
      socket_app(**options) { |socket| socket.each { |message| socket.write(message) } }
    end
  end
end
