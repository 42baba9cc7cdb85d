# frozen_string_literal: true

# Content codings, and bodies that pass through one. Compression makes them. What is more than a few
# kilobytes is compressed in a thread of Gyre::Offload, so that the loop goes on meanwhile.

require "zlib"
require "gyre/http/body_io"
require "gyre/offload"

module Gyre
  module HTTP
    # A compressor has write(string) → String, whatever the client has to get of it now, and finish
    # → String. Both may be empty. close may be called at any time.
    module Compressors
      # What is compressed on the loop: a fraction of a millisecond.
      INLINE_BYTES = 8 * 1024
      # What is compressed at a time elsewhere.
      PIECE_BYTES = 256 * 1024
      private_constant :INLINE_BYTES, :PIECE_BYTES

      # RFC 1952, by Ruby's zlib, which lets other threads run.
      class Gzip
        LEVEL = 5
        private_constant :LEVEL

        def initialize
          @deflate = Zlib::Deflate.new(LEVEL, Zlib::MAX_WBITS + 16)
        end

        # @param string [String]
        # @param flush [Boolean] nothing of it is kept back
        # @return [String]
        def write(string, flush: true)
          @deflate.deflate(string, flush ? Zlib::SYNC_FLUSH : Zlib::NO_FLUSH)
        end

        # @return [String] the rest
        def finish
          @deflate.finish
        end

        # @return [void]
        def close
          return if @deflate.closed?

          @deflate.reset # else an unfinished one warns
          @deflate.close
        end
      end

      # RFC 8878, by the gem zstd-ruby.
      class Zstandard
        def initialize
          @stream = ::Zstd::StreamingCompress.new
        end

        # (see Gzip#write)
        def write(string, flush: true)
          bytes = @stream.compress(string)
          flush ? bytes + @stream.flush : bytes
        end

        # (see Gzip#finish)
        def finish
          @stream.finish
        end

        # (see Gzip#close)
        def close; end
      end

      # RFC 7932, by the gem brotli.
      class Brotli
        QUALITY = 4
        private_constant :QUALITY

        def initialize
          @compressor = ::Brotli::Compressor.new(quality: QUALITY)
        end

        # (see Gzip#write)
        def write(string, flush: true)
          bytes = @compressor.process(string)
          flush ? bytes + @compressor.flush : bytes
        end

        # (see Gzip#finish)
        def finish
          @compressor.finish
        end

        # (see Gzip#close)
        def close; end
      end

      module_function

      # @return [Hash{String => Class}] those whose library is loaded, the favourite first
      def available
        codings = {}
        codings["br"] = Brotli if defined?(::Brotli::Compressor)
        codings["zstd"] = Zstandard if defined?(::Zstd::StreamingCompress)
        codings["gzip"] = Gzip
        codings
      end

      # @param kind [Class] of compressor
      # @param parts [Array<String>]
      # @return [String]
      def whole(kind, parts)
        compressor = kind.new
        bytes = +"".b
        parts.each { |part| bytes << run(compressor, part, flush: false) }
        bytes << finish(compressor)
      ensure
        compressor&.close
      end

      # Long strings in a thread, piece by piece, so that a request that is cancelled ends soon.
      #
      # @return [String]
      def run(compressor, string, flush: true)
        return string if string.empty? # zlib has nothing to flush then, and raises
        return compressor.write(string, flush: flush) if string.bytesize <= INLINE_BYTES

        bytes = +"".b
        0.step(string.bytesize - 1, PIECE_BYTES) do |offset|
          piece = string.byteslice(offset, PIECE_BYTES)
          ending = flush && offset + PIECE_BYTES >= string.bytesize
          bytes << Offload.call(abandon: false) { compressor.write(piece, flush: ending) }
        end
        bytes
      end

      # @return [String] all that was kept back may be a lot
      def finish(compressor)
        Offload.call(abandon: false) { compressor.finish }
      end

      # A body by each: each part leaves as soon as the app has given it.
      class Parts
        # @param body [#each]
        # @param kind [Class]
        def initialize(body, kind)
          @body = body
          @compressor = kind.new
        end

        # @yieldparam bytes [String]
        # @return [void]
        def each
          @body.each do |part|
            raise TypeError, "a body must give Strings, not #{part.class}" unless part.is_a?(String)

            bytes = Compressors.run(@compressor, part)
            yield bytes unless bytes.empty?
          end
          yield @compressor.finish
        end

        # @return [void]
        def close
          @body.close if @body.respond_to?(:close)
        ensure
          @compressor.close
        end
      end

      # A body by call: each write to its stream leaves at once.
      class Call
        # @param body [#call]
        # @param kind [Class]
        def initialize(body, kind)
          @body = body
          @kind = kind
        end

        # @param stream [BodyIO]
        # @return [void]
        def call(stream)
          output = Output.new(stream, @kind.new)
          compressed = BodyIO.new(stream, output)
          @body.call(compressed)
          compressed.close
          stream.close
        ensure
          output&.close
        end

        # @return [void]
        def close
          @body.close if @body.respond_to?(:close)
        end
      end

      # Where such a body's BodyIO writes.
      class Output
        # @param stream [BodyIO]
        # @param compressor [Gzip, Zstandard, Brotli]
        def initialize(stream, compressor)
          @stream = stream
          @compressor = compressor
        end

        # @param string [String]
        # @return [Integer] bytes of it
        # @raise [IOError] it was closed
        def write(string)
          raise IOError, "not opened for writing" unless @compressor

          bytes = Compressors.run(@compressor, string)
          @stream.write(bytes) unless bytes.empty?
          string.bytesize
        end

        # @return [void]
        def finish
          @stream.write(@compressor.finish) if @compressor
          @stream.close_write
        end

        # Gives its memory back, whatever happened.
        #
        # @return [void]
        def close
          @compressor&.close
          @compressor = nil
        end
      end
    end
  end
end
