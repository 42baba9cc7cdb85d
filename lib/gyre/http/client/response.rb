# frozen_string_literal: true

# A response to a request of the client. Reads the body from an exchange and gives the connection
# back at the end, even if the program forgets the response.

require "gyre/http/client/decoders"
require "gyre/http/client/h1_connection"
require "json"
require "time"

module Gyre
  module HTTP
    class Client
      # A server's response.
      class Response
        RATE_AFTER_S = 10
        # Names by which Encoding.find finds settings of the process.
        NO_CHARSETS = %w[external filesystem internal locale].freeze
        private_constant :RATE_AFTER_S, :NO_CHARSETS

        # @return [Integer]
        attr_reader :status
        # @return [String] "HTTP/1.1" or "HTTP/2"
        attr_reader :protocol
        # @return [Hash{String => String}, nil] fields after the body; nil before its end
        attr_reader :trailers

        # @api private
        def initialize(request, exchange, report = nil)
          @request = request
          @status = exchange.status
          @head = exchange.head
          @protocol = request.connection.protocol
          @exchange = exchange
          @report = report
          @received = 0 # bytes of the body
          leave if exchange.over?
        end

        # Lines of one name are joined by ", ", but set-cookie is an Array of lines.
        # @return [Hash{String => String, Array<String>}] by lower-case name
        def headers = @head.is_a?(Hash) ? @head : @head = H1Connection.fields(@head)

        # @return [String] "GET"
        def request_method = @request.method

        # @return [String] address after redirects
        def url = @request.whole_url

        # @return [Boolean] whether the status is 200 to 299
        def ok? = status.between?(200, 299)

        # @return [self]
        # @raise [StatusError] the status is 400 or higher
        def check
          return self if status < 400

          raise StatusError.new(self, *@request.name)
        end

        # @param name [String] in any letter case
        # @return [String, Array<String>, nil]
        def [](name) = headers[name.downcase]

        # @return [String] the whole body, BINARY
        # @raise [Error] also if the body was read in pieces or dropped
        def body = @body ||= load.body

        # @return [String] the whole body in its charset, UTF-8 if the server names none that Ruby
        #   knows; without a byte order mark
        # @raise [Error]
        def text
          text = body.dup.force_encoding(charset || Encoding::UTF_8)
          text.encoding == Encoding::UTF_8 ? text.delete_prefix("\u{feff}") : text
        end

        # @return [Encoding, nil] of the content-type, if Ruby knows it
        def charset
          name = self["content-type"].to_s[/;\s*charset="?([\w.:-]+)/i, 1]
          Encoding.find(name) if name && !NO_CHARSETS.include?(name.downcase)
        rescue ArgumentError
          nil
        end

        # @return [Object] the body, parsed
        # @raise [JSON::ParserError, Error]
        def json(**options) = JSON.parse(text, **options)

        # @return [Numeric, nil] seconds that the server asks to wait (Retry-After)
        def retry_after_s
          value = self["retry-after"] or return
          value.match?(/\A\d{1,9}\z/) ? value.to_i : [Time.httpdate(value) - Time.now, 0].max
        rescue ArgumentError
          nil
        end

        # @api private
        def decoded? = !!(encoded? && decoder_of(headers["content-encoding"])&.tap(&:close))

        # Yields the decoded body in pieces. A streamed body can be read only once.
        # @yieldparam piece [String] BINARY
        # @return [self, Enumerator]
        # @raise [Error]
        def each(&block)
          return enum_for(:each) unless block

          @body ? yield(@body) : decode(&block)
          self
        ensure
          spend if block && !@body && @received.positive?
        end

        # Writes the decoded body to an IO or a file.
        # @param target [String, Pathname, IO] a path, or anything with write
        # @return [Integer] bytes
        # @raise [Error, SystemCallError]
        def save(target)
          path = target.is_a?(String) || (target.respond_to?(:to_path) && !target.respond_to?(:fileno))
          return File.open(target, "wb") { |file| save(file) } if path

          bytes = 0
          each do |piece|
            bytes += piece.bytesize
            while (count = target.write(piece)).is_a?(Integer) && count < piece.bytesize
              piece = piece.byteslice(count..)
            end
          end
          bytes
        end

        # Ends the response without reading the rest of the body. Does nothing after the body's end.
        # @return [nil]
        def close
          return unless (exchange = @exchange)

          spend
          exchange.cancel
          leave
        end

        # @return [String]
        def inspect = "#<#{self.class} #{status} #{request_method} #{@request.url}>"

        # Reads the whole body.
        # @api private
        def load
          return self if @body

          most = limits.body_bytes_limit
          bytes = nil
          decode(most) do |piece|
            bytes ? bytes << piece : bytes = piece
            too_large(most) if bytes.bytesize > most
          end
          @body = bytes || "".b
          self
        end

        # Drops up to `most` bytes of the body, so that the connection can be kept.
        # @api private
        def skim(most)
          most -= read_piece.to_s.bytesize while @exchange && most.positive?
        ensure
          close
        end

        # The connection after a switch of protocols.
        # @api private
        def connection = @request.connection

        private

        # An unparsed head (not a Hash) has no content-encoding.
        def encoded? = @head.is_a?(Hash) && @head.key?("content-encoding")

        # A part of an encoded body (206) cannot be decoded.
        def decoder_of(codings) = codings && status != 206 && @request.decodes? ? Decoders.for(codings) : nil

        # Yields the decoded body in pieces. `most` limits the encoded bytes.
        def decode(most = nil, &block)
          raise @failure if @failure

          decoder = decoder_of(headers["content-encoding"]) if encoded?
          while (piece = read_piece)
            too_large(most) if most && @received > most
            decoder ? decoder.decode(piece, &block) : yield(piece)
            too_large(most) if most && decoder && decoder.passed > most
          end
          raise Decoders::Damaged, "the #{headers["content-encoding"]} body is cut" if decoder && @received.positive? && !decoder.finish(&block)
        rescue Decoders::Damaged => error
          raise(@failure = Client.wrap(error, @request, :body))
        ensure
          decoder&.close
          close
        end

        def limits = @request.pool.origin.limits

        def read_piece
          raise @failure if @failure
          return unless @exchange

          piece = limits.body_rate_bytes_limit.positive? ? read_at_rate(limits.body_rate_bytes_limit) : @exchange.read
          @received += piece.bytesize if piece
          leave if @exchange&.over?
          piece
        rescue *FAILURES => error
          close
          raise(@failure = Client.wrap(error, @request, :body))
        end

        # Lets later reads of the body fail.
        def spend = @failure ||= Error.new("the body was read in pieces or dropped before", *@request.name, :body)

        # Counts only the time spent waiting for the server.
        def read_at_rate(rate)
          since = Clock.now
          @waited_s ||= 0
          left_s = [[RATE_AFTER_S, @received.fdiv(rate)].max - @waited_s, 0].max
          piece = @exchange.read(left_s)
          @waited_s += Clock.now - since
          piece
        rescue Gyre::TimeoutError => error
          raise if error.deadline || Clock.now < since + left_s

          passed_s = (@waited_s + Clock.now - since).round
          raise Gyre::TimeoutError, "#{@received} bytes in #{passed_s} s: slower than body_rate_bytes_limit", cause: nil
        end

        def too_large(most)
          reason = "the body has more than #{most} bytes: stream it, or raise body_bytes_limit"
          raise(@failure = TooLargeError.new(reason, *@request.name, :body))
        end

        # Does nothing if another thread has ended the response.
        def leave
          exchange = @exchange or return
          @trailers = exchange.trailers
          status == 101 ? @request.pool.detach(connection) : @request.pool.give(@request) # 101: it speaks another protocol now
          return unless @exchange

          @exchange = nil
          @report&.finish(self, @received) unless status == 101
        end
      end
    end
  end
end
