# frozen_string_literal: true

# Compresses values in the format of zlib, like Dalli, or gzip. Limits the size of decompressed
# values. Called by Values.

require "zlib"
require "gyre/memcached/errors"

module Gyre
  module Memcached
    class Compressor
      SLICE_BYTES = 65_536

      # `window_bits` is deflateInit2's: 15 means the format of zlib, 31 that of gzip.
      def initialize(window_bits)
        @window_bits = window_bits
      end

      def compress(bytes)
        stream = Zlib::Deflate.new(Zlib::DEFAULT_COMPRESSION, @window_bits)
        output = stream.deflate(bytes, Zlib::FINISH)
        finish(stream) { |piece| output << piece }
        output
      ensure
        close(stream)
      end

      # Raises DeserializationError for a damaged, truncated or too long value.
      def decompress(bytes, max_bytes: nil)
        stream = Zlib::Inflate.new(@window_bits)
        output = String.new(encoding: Encoding::BINARY)
        take = ->(piece) { append(output, piece, max_bytes) if piece }
        0.step(bytes.bytesize - 1, SLICE_BYTES) do |at|
          take.call(stream.inflate(bytes.byteslice(at, SLICE_BYTES), &take)) unless stream.finished?
        rescue Zlib::BufError
          nil # a signal: zlib before 3.2.4 calls an empty input an error, but keeps its work (ruby/zlib#49)
        end
        finish(stream, &take)
        output
      rescue Zlib::Error => error
        raise DeserializationError, "decompress a value of #{bytes.bytesize} bytes: #{error.message}"
      ensure
        close(stream)
      end

      private

      # zlib warns if an unfinished stream is closed without a reset.
      def close(stream)
        stream.reset unless stream.finished?
        stream.close
      end

      # Repeats `finish`, because a signal makes zlib return before the stream's end (ruby/zlib#49).
      def finish(stream)
        until stream.finished?
          piece = stream.finish
          raise Zlib::BufError, "it is cut off" if piece.empty?

          yield piece
        end
      end

      def append(output, piece, max_bytes)
        output << piece
        return if max_bytes.nil? || output.bytesize <= max_bytes

        raise DeserializationError, "a value is longer than #{max_bytes} bytes when decompressed; raise decompressed_max_bytes if it may be"
      end
    end

    ZLIB = Compressor.new(Zlib::MAX_WBITS).freeze

    GZIP = Compressor.new(Zlib::MAX_WBITS + 16).freeze
  end
end
