# frozen_string_literal: true

# For the contracts over HTTP/2: a client with the methods of the HTTP/1 client. No test itself.

require "http/h2/serving"

module GyreTest
  # For test/contracts.
  module H2Contract
    # What the HTTP/1 client's methods are on HTTP/2. Each connection serves one request after the
    # other; what is written beside a request is the body of the latest one.
    class Client
      # Fields of HTTP/1's connections and framing; HTTP/2 forbids them.
      OF_CONNECTIONS = %i[connection transfer_encoding upgrade].freeze

      attr_reader :h2

      def initialize(test, h2)
        @test = test
        @h2 = h2
        @streams = []
      end

      # What a test asks of the socket itself.
      def socket = self
      def closed? = @h2.closed?
      def shutdown(_how) = @h2.finish

      def request(line = "GET / HTTP/1.1", body = "", **fields)
        @test.flunk("#{line} is not HTTP/1.1's") if line.end_with?("HTTP/1.0")
        chunked = fields[:transfer_encoding]
        body, trailers = unchunked(+body) if chunked && !body.empty?
        @left = chunked && body.empty? ? Float::INFINITY : fields.fetch(:content_length, body.bytesize) - body.bytesize
        @latest = @h2.open(line, end_stream: body.empty? && @left.zero? && !trailers, **fields.except(*OF_CONNECTIONS))
        @latest.write(body, end_stream: @left.zero? && !trailers) unless body.empty?
        @latest.finish(trailers) if trailers
        @streams << @latest
        self
      end

      # More of the latest request's body.
      def write(bytes)
        @test.flunk("these bytes are HTTP/1's: #{bytes[0, 60].inspect}") unless @latest && @left.positive? && @left.finite?
        @left -= bytes.bytesize
        @latest.write(bytes, end_stream: @left.zero?)
        self
      end
      alias << write

      def response(head_only: false, interim: false)
        stream = @streams.first
        if interim && (taken = next_interim(stream))
          return HTTPServing::Response.new(*taken, +"", "")
        end

        @streams.shift.response.tap { |response| @test.assert_empty(response.body) if head_only }
      end

      def get(line = "GET / HTTP/1.1", body = "", head_only: line.start_with?("HEAD"), **fields)
        request(line, body, **fields).response(head_only: head_only)
      end

      # Waits for the head only.
      def take_through(ending)
        @test.flunk("#{ending.inspect} is HTTP/1's") unless ending == "\r\n\r\n"
        stream = @streams.first.head
        "#{stream.status}\r\n#{stream.fields.map { |name, value| "#{name}: #{value}\r\n" }.join}\r\n"
      end

      def take(length)
        length.zero? ? "" : @streams.first.take(length)
      end

      # Returns a piece of the body; nil at its end.
      def chunk
        @streams.first.read || (@streams.shift && nil)
      end

      # Returns the body up to the end of the stream, however it ends.
      def rest
        stream = @streams.shift or return @h2.failure.then { "" }
        nil until stream.over? || !@h2.next_frame
        stream.received
      end

      # Returns whether the server ended the connection, and sent nothing more before.
      def ended?
        @h2.failure
        @streams.all? { |stream| (stream.frames.map(&:type) - %i[rst_stream window_update]).empty? }
      end

      def reset? = @streams.first ? !@streams.first.failure.nil? : @h2.reset?
      def silent?(seconds = 0.05) = @h2.silent?(seconds)
      def reset = @h2.reset
      def close = @h2.close

      private

      def next_interim(stream)
        @taken ||= Hash.new(0).compare_by_identity
        @h2.wait("a head") { stream.over? || stream.status || stream.interims.size > @taken[stream] }
        stream.interims[@taken[stream]].tap { |interim| @taken[stream] += 1 if interim }
      end

      # Returns a body and its trailers.
      def unchunked(bytes)
        body = +""
        until (size = Integer(bytes.slice!(/\A[^\r]*\r\n/).to_s[/\A\h+(?=\r\n)/] || @test.flunk("malformed chunks are HTTP/1's"), 16)).zero?
          body << bytes.slice!(0, size)
          bytes.slice!(0, 2)
        end
        trailers = bytes.lines("\r\n", chomp: true).reject(&:empty?).map { |line| line.split(/:\s*/, 2) }
        [body, (trailers.map { |name, value| [name.downcase, value] } unless trailers.empty?)]
      end
    end

    # For the cases.
    module Serving
      include H2Serving

      def connect(served, **options)
        client = Client.new(self, super)
        @clients[-1] = client
        client
      end

      def http2? = true
    end
  end
end
