# frozen_string_literal: true

# A response of the client: status, headers and body. Reads its body from an exchange, and gives the
# connection back at the end. Without a block the client reads it whole.

module Gyre
  module HTTP
    class Client
      # What a server responded.
      class Response
        # @return [Integer]
        attr_reader :status
        # @return [Hash{String => String, Array<String>}] lower-case names; lines of one name are
        #   joined by ", ", set-cookie is an Array
        attr_reader :headers
        # @return [String] "GET"
        attr_reader :request_method

        # @api private
        def initialize(request_method, exchange, pool, connection)
          @request_method = request_method
          @status = exchange.status
          @headers = exchange.headers
          @exchange = exchange
          @pool = pool
          @connection = connection
          leave if exchange.over?
        end

        # @return [Boolean] whether the status is 200 to 299
        def ok? = status.between?(200, 299)

        # @param name [String] lower-case
        # @return [String, Array<String>, nil]
        def [](name) = headers[name]

        # @return [String] the whole body, BINARY
        def body = @body ||= each.to_a.join.b

        # Yields the pieces of the body as they come.
        # @yieldparam piece [String]
        # @return [self, Enumerator]
        def each
          return enum_for(:each) unless block_given?
          return self if @body && (yield @body)

          while (piece = read_piece)
            yield piece
          end
          self
        end

        # Ends the response early: the rest of the body is not read.
        # @return [nil]
        def close
          return unless @exchange

          @exchange.cancel
          leave
        end

        # @api private
        def load(most)
          @body = read_piece || "".b
          while (piece = read_piece)
            @body << piece
            raise TooLargeError.new("the body has more than #{most} bytes (body_bytes_limit)", request_method) if @body.bytesize > most
          end
          self
        ensure
          close
        end

        private

        def read_piece
          return unless @exchange

          piece = @exchange.read
          leave if @exchange.over?
          piece
        end

        def leave
          @exchange = nil
          @pool&.give(@connection)
          @pool = @connection = nil
        end
      end
    end
  end
end
