# frozen_string_literal: true

# Compressors for Compression, and a body whose parts are compressed. Data larger than INLINE_BYTES
# is compressed in a thread of Gyre::Offload.

require "zlib"
require "gyre/offload"

module Gyre
  module HTTP
    # A compressor's write(string) returns bytes for the client, and finish returns the remaining
    # bytes. Both may return an empty String. close may be called at any time.
    module Compressors
      # Maximum bytes compressed in the loop's thread, which takes a fraction of a millisecond.
      INLINE_BYTES = 8 * 1024
      PIECE_BYTES = 256 * 1024

      # Compresses to gzip (RFC 1952) by Ruby's zlib, which releases the GVL.
      class Gzip
        LEVEL = 5

        def initialize
          @deflate = Zlib::Deflate.new(LEVEL, Zlib::MAX_WBITS + 16)
        end

        def write(string, flush: true) = @deflate.deflate(string, flush ? Zlib::SYNC_FLUSH : Zlib::NO_FLUSH)

        def finish = @deflate.finish

        def close
          return if @deflate.closed?

          @deflate.reset # otherwise zlib would warn about an unfinished stream
          @deflate.close
        end
      end

      # Compresses by a gem's stream, which has no close.
      class ByGem
        def initialize(stream, method)
          @stream = stream
          @method = method
        end

        def write(string, flush: true)
          bytes = @stream.public_send(@method, string)
          flush ? bytes + @stream.flush : bytes
        end

        def finish = @stream.finish

        def close; end
      end

      # Compresses to zstd (RFC 8878) by the gem zstd-ruby.
      class Zstandard < ByGem
        def initialize = super(::Zstd::StreamingCompress.new, :compress)
      end

      # Compresses to br (RFC 7932) by the gem brotli.
      class Brotli < ByGem
        QUALITY = 4

        def initialize = super(::Brotli::Compressor.new(quality: QUALITY), :process)
      end

      module_function

      # Codings whose library is loaded, in order of preference.
      def available
        codings = {}
        codings["br"] = Brotli if defined?(::Brotli::Compressor)
        codings["zstd"] = Zstandard if defined?(::Zstd::StreamingCompress)
        codings["gzip"] = Gzip
        codings
      end

      def whole(kind, parts)
        compressor = kind.new
        bytes = +"".b
        parts.each { |part| bytes << run(compressor, part, flush: false) }
        bytes << finish(compressor)
      ensure
        compressor&.close
      end

      # Compresses a long String in a thread, piece by piece, so that a cancelled request ends soon.
      def run(compressor, string, flush: true)
        return string if string.empty? # zlib would have nothing to flush and would raise
        return compressor.write(string, flush: flush) if string.bytesize <= INLINE_BYTES

        bytes = +"".b
        0.step(string.bytesize - 1, PIECE_BYTES) do |offset|
          piece = string.byteslice(offset, PIECE_BYTES)
          ending = flush && offset + PIECE_BYTES >= string.bytesize
          bytes << Offload.call(abandon: false) { compressor.write(piece, flush: ending) }
        end
        bytes
      end

      def finish(compressor) = Offload.call(abandon: false) { compressor.finish }

      # A body that compresses each part of another body.
      class Parts
        def initialize(body, kind)
          @body = body
          @compressor = kind.new
        end

        def each
          @body.each do |part|
            raise TypeError, "a body must give Strings, not #{part.class}" unless part.is_a?(String)

            bytes = Compressors.run(@compressor, part)
            yield bytes unless bytes.empty?
          end
          yield @compressor.finish
        end

        def close
          @body.close if @body.respond_to?(:close)
        ensure
          @compressor.close
        end
      end
    end
  end
end
