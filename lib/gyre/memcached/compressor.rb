# frozen_string_literal: true

# Compresses large values: in zlib's format, as Dalli does, or gzip's. Called by Values. Results of
# decompression have a limit.

require "zlib"
require "gyre/memcached/errors"

module Gyre
  module Memcached
    class Compressor
      SLICE_BYTES = 65_536
      private_constant :SLICE_BYTES

      # As zlib's deflateInit2 takes it: 15 is zlib's format, 31 gzip's.
      def initialize(window_bits)
        @window_bits = window_bits
      end

      def compress(bytes)
        stream = Zlib::Deflate.new(Zlib::DEFAULT_COMPRESSION, @window_bits)
        finish(stream, stream.deflate(bytes, Zlib::FINISH))
      ensure
        close(stream)
      end

      # Raises DeserializationError if the result is longer, broken or cut off.
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

      # Ruby warns of a stream closed in the middle.
      def close(stream)
        stream.reset unless stream.finished?
        stream.close
      end

      # zlib before 3.2.4 reports an empty input as an error after a signal; its work stays in the
      # stream (ruby/zlib#49). `finish` notices a truncated value.
      def inflate(stream, slice)
        rest = stream.inflate(slice) { |piece| yield piece }
        yield rest if rest
      rescue Zlib::BufError
        nil
      end

      # A signal makes zlib return early (ruby/zlib#49); the stream knows whether it has ended.
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

    # zlib's format, the clients' default.
    ZLIB = Compressor.new(Zlib::MAX_WBITS).freeze

    # gzip's format, with a checksum.
    GZIP = Compressor.new(Zlib::MAX_WBITS + 16).freeze
  end
end
