# frozen_string_literal: true

# The body of one request as the portable connection reads it: of a known length, or in chunks with trailers. Bytes come from
# the connection's PortableTransport as they are asked for; what follows the body stays there. Made by PortableConnection.

require "gyre/http1/chunked"
require "gyre/http1/errors"
require "gyre/http1/trailers"

module Gyre
  module HTTP1
    # What both kinds have in common.
    class PortableBody
      # @param head [Parser]
      # @param transport [PortableTransport]
      # @param limits [Limits]
      # @return [PortableBody, nil] nil when the request has none
      def self.for(head, transport, limits)
        if head.chunked?
          Chunks.new(transport, limits)
        elsif head.content_length&.positive?
          Sized.new(transport, limits, head.content_length)
        end
      end

      # @return [Hash{String => String}] lower-case names; empty until the end was read
      attr_reader :trailers

      # @param transport [PortableTransport]
      # @param limits [Limits]
      def initialize(transport, limits)
        @transport = transport
        @limits = limits
        @trailers = {}
        @error = nil
      end

      # Waits for something if nothing is there.
      #
      # @param max_bytes [Integer]
      # @return [String, nil] 1 to max_bytes bytes; nil at the end
      # @raise [RequestError, RequestCut] again and again
      def read(max_bytes)
        raise @error if @error

        finished? ? nil : take(max_bytes)
      rescue RequestError, RequestCut => error
        @error = error
        raise
      end

      private

      def fill
        case @transport.fill
        when :timeout then raise RequestError.new("no more of the body came within #{@limits.read_timeout_s} s", 408)
        when :end     then raise RequestCut, "the client closed the connection before the end of the body"
        end
      rescue SystemCallError, IOError => error
        raise error.is_a?(RequestCut) ? error : RequestCut.new("the connection ended before the body: #{error.message}")
      end
    end

    class PortableBody
      # Content-Length.
      class Sized < PortableBody
        # @param length [Integer] 1 or more
        def initialize(transport, limits, length)
          super(transport, limits)
          @left = length
        end

        # @return [Boolean]
        def finished?
          @left.zero?
        end

        # @param bytes [Integer]
        # @return [Boolean] whether it is known that more is left than so much
        def longer_than?(bytes)
          @left > bytes
        end

        private

        def take(max_bytes)
          fill if @transport.bytes.empty?
          piece = @transport.take([max_bytes, @left].min)
          @left -= piece.bytesize
          piece
        end
      end

      # Transfer-Encoding: chunked.
      class Chunks < PortableBody
        def initialize(transport, limits)
          super
          @chunked = Chunked.new
          @size = 0
          @rest = nil # of a piece that was larger than what was asked for
          @finished = false
        end

        # @return [Boolean]
        def finished?
          @finished
        end

        # @return [Boolean] false: nobody knows
        def longer_than?(_bytes)
          false
        end

        private

        def take(max_bytes)
          piece = @rest || next_piece or return
          @rest = piece.bytesize > max_bytes ? piece.byteslice(max_bytes..-1) : nil
          @rest ? piece.byteslice(0, max_bytes) : piece
        end

        def next_piece
          loop do
            bytes = @transport.bytes
            result = @chunked.step(bytes)
            piece = bytes.byteslice(@chunked.data_offset, @chunked.data_length) if result == :data
            @transport.consume(@chunked.position)
            case result
            when :data     then return counted(piece)
            when :more     then fill
            when :trailers then return read_trailers
            else raise RequestError.new(@chunked.reason, @chunked.status)
            end
          end
        end

        def counted(piece)
          @size += piece.bytesize
          return piece if @size <= @limits.body_bytes_limit

          raise RequestError.new("the body is longer than #{@limits.body_bytes_limit} bytes", 413)
        end

        # @return [nil]
        def read_trailers
          section = Trailers.new(@limits)
          fill while (length = section.parse(@transport.bytes)).zero?
          raise RequestError.new(section.reason, section.status) if length.negative?

          @transport.consume(length)
          @trailers = section.fields.each_with_object({}) do |(name, value), trailers|
            name = name.downcase
            trailers[name] = trailers.key?(name) ? "#{trailers[name]}, #{value}" : value
          end
          @finished = true
          nil
        end
      end
    end
  end
end
