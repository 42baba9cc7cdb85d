# frozen_string_literal: true

# rack.input: a request's body (Rack SPEC, "The Input Stream"). Made by the connection; requests
# without a body share EMPTY. Reads bytes on demand; only `gets` reads ahead. Cannot rewind.

module Gyre
  module HTTP
    # The body of one request. All Strings are BINARY.
    class Input
      # Maximum bytes of one read if the caller gives no length.
      PIECE_BYTES = 65_536
      private_constant :PIECE_BYTES

      # @param exchange [Exchange]
      def initialize(exchange)
        @exchange = exchange
        @ahead = nil # bytes that `gets` has read beyond its line, or nil; never empty
        @closed = false
      end

      # Reads like IO#read.
      # @param length [Integer, nil]
      # @param buffer [String, nil] its content is replaced
      # @return [String, nil] nil at the end, if a length other than 0 was given
      # @raise [RequestError] too slow, too long or malformed
      # @raise [RequestCut] the client closed before the end
      def read(length = nil, buffer = nil)
        raise ArgumentError, "negative length #{length} given" if length&.negative?

        content = buffer ? buffer.clear.force_encoding(Encoding::BINARY) : String.new
        return content if length&.zero?

        while length.nil? || content.bytesize < length
          piece = take(length ? length - content.bytesize : PIECE_BYTES) or break
          content << piece
          piece.clear # frees its memory before the next collection
        end
        content if length.nil? || !content.empty?
      end

      # Reads like IO#readpartial; waits only for the first byte.
      # @param length [Integer] bytes at most
      # @param buffer [String, nil] its content is replaced
      # @return [String]
      # @raise [EOFError] at the end
      def readpartial(length, buffer = nil)
        piece = take(length) or raise EOFError, "end of the request's body"
        buffer ? buffer.replace(piece) : piece
      end

      # @return [String, nil] the next line with its line end, or the rest; nil at the end
      def gets
        line = String.new
        while (piece = take(PIECE_BYTES))
          length = piece.index("\n")
          next line << piece unless length

          @ahead = piece.byteslice(length + 1..-1) if length + 1 < piece.bytesize
          return line << piece.byteslice(0, length + 1)
        end
        line unless line.empty?
      end

      # @yieldparam line [String]
      # @return [self, Enumerator]
      def each
        return enum_for(:each) unless block_given?

        while (line = gets)
          yield line
        end
        self
      end

      # Ends reading; the connection handles the rest of the body.
      # @return [nil]
      def close
        @closed = true
        @ahead = nil
      end

      private

      # @return [String, nil] 1 to length bytes, or nil at the end
      def take(length)
        raise IOError, "closed stream" if @closed
        return @exchange.read_body(length) unless @ahead

        piece = @ahead.byteslice(0, length)
        @ahead = @ahead.bytesize > length ? @ahead.byteslice(length..-1) : nil
        piece
      end

      # rack.input of a request that has no body. Closing does nothing.
      class Empty < Input
        def initialize; end # rubocop:disable Lint/MissingSuper

        # @return [Integer] as IO#rewind
        def rewind = 0

        # @return [nil]
        def close = nil

        private

        def take(_length) = nil
      end

      # Shared by requests without a body.
      EMPTY = Empty.new.freeze
    end
  end
end
