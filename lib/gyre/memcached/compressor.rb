# frozen_string_literal: true

# The compression of large values: zlib's format, as Dalli's, and gzip's as the alternative. Called
# by Values. What is decompressed has a limit.

require "zlib"
require "gyre/memcached/errors"

module Gyre
  module Memcached
    # Compresses by zlib, in a window of the form that it is made with.
    class Compressor
      SLICE_BYTES = 65_536
      private_constant :SLICE_BYTES

      # @param window_bits [Integer] as zlib's deflateInit2 takes it: 15 is zlib's format, 31 gzip's
      def initialize(window_bits)
        @window_bits = window_bits
      end

      # @param bytes [String]
      # @return [String] binary
      def compress(bytes)
        stream = Zlib::Deflate.new(Zlib::DEFAULT_COMPRESSION, @window_bits)
        finish(stream, stream.deflate(bytes, Zlib::FINISH))
      ensure
        close(stream)
      end

      # @param bytes [String]
      # @param max_bytes [Integer, nil] how long the result may be
      # @return [String] binary
      # @raise [DeserializationError] when it is longer, broken or cut off
      def decompress(bytes, max_bytes: nil)
        stream = Zlib::Inflate.new(@window_bits)
        output = String.new(encoding: Encoding::BINARY)
        0.step(bytes.bytesize - 1, SLICE_BYTES) do |at|
          break if stream.finished?

          inflate(stream, bytes.byteslice(at, SLICE_BYTES)) { |piece| append(output, piece, max_bytes) }
        end
        finish(stream, output) { |piece| append(output, piece, max_bytes) }
      rescue Zlib::Error => error
        raise DeserializationError, "decompress a value of #{bytes.bytesize} bytes: #{error.message}"
      ensure
        close(stream)
      end

      private

      # Ruby warns of a stream that is closed in the middle.
      def close(stream)
        stream.reset unless stream.finished?
        stream.close
      end

      # zlib before 3.2.4 reports an empty input as an error when a signal has interrupted it; what
      # it had done stays in the stream (ruby/zlib#49). A value that is cut off is noticed in
      # `finish`.
      def inflate(stream, slice)
        rest = stream.inflate(slice) { |piece| yield piece }
        yield rest if rest
      rescue Zlib::BufError
        nil
      end

      # A signal makes zlib return early (ruby/zlib#49): the stream knows whether it has ended.
      def finish(stream, output)
        until stream.finished?
          piece = stream.finish
          raise Zlib::BufError, "it is cut off" if piece.empty?

          block_given? ? yield(piece) : output << piece
        end
        output
      end

      def append(output, piece, max_bytes)
        output << piece
        return if max_bytes.nil? || output.bytesize <= max_bytes

        raise DeserializationError, "a value is longer than #{max_bytes} bytes when decompressed; raise decompressed_max_bytes if it may be"
      end
    end

    # zlib's format; what clients use unless told otherwise.
    ZLIB = Compressor.new(Zlib::MAX_WBITS).freeze

    # gzip's format, with a checksum.
    GZIP = Compressor.new(Zlib::MAX_WBITS + 16).freeze
  end
end
