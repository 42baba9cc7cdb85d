# frozen_string_literal: true

# Decoders of content codings for Response. They yield bounded pieces, so that a small body cannot
# expand into a large String before its size is checked.

require "gyre/errors"
require "zlib"

module Gyre
  module HTTP
    class Client
      # A decoder has decode(bytes), finish, close and passed. decode yields pieces. finish yields
      # the rest and returns whether the body is complete. `passed` is the number of bytes between
      # two codings.
      module Decoders
        # The compressed body is malformed or truncated.
        Damaged = Class.new(Gyre::ProtocolError)

        # Decodes gzip (RFC 1952), zlib (RFC 1950) and raw deflate (RFC 1951). Yields all that the
        # bytes decode to, as a server may flush after each event.
        class Inflate
          # zlib copies the bytes after a member's end. Short slices bound these copies.
          SLICE_BYTES = 4096
          private_constant :SLICE_BYTES

          # @param window_bits [Integer, nil] nil: the first two bytes decide between zlib and raw
          #   deflate, which some servers send
          def initialize(window_bits = nil)
            @inflate = Zlib::Inflate.new(window_bits) if window_bits
            @head = "".b
            @over = false
          end

          # A gzip body may have several members (RFC 1952, section 2.2). Zeros after the end, with
          # which some servers pad, end the body, as in gunzip.
          def decode(bytes, &block)
            bytes = begin_stream(bytes) or return unless @inflate
            at = 0
            until @over || at >= bytes.bytesize
              next @over = true if @inflate.finished? && bytes.getbyte(at).zero?

              @inflate.reset if @inflate.finished?
              before = @inflate.total_in
              inflate(bytes.byteslice(at, SLICE_BYTES), &block)
              at += @inflate.total_in - before
            end
          end

          def passed = 0
          def finish = !@inflate.nil? && @inflate.finished?

          def close
            @inflate&.reset # otherwise zlib would warn about an unfinished stream
            @inflate&.close
          end

          private

          # A zlib head has method 8 and is a multiple of 31 (RFC 1950, section 2.2).
          def begin_stream(bytes)
            @head << bytes
            return if @head.bytesize < 2

            framed = @head.getbyte(0) & 15 == 8 && (@head.unpack1("n") % 31).zero?
            @inflate = Zlib::Inflate.new(framed ? Zlib::MAX_WBITS : -Zlib::MAX_WBITS)
            @head
          end

          def inflate(bytes)
            own = true
            give = lambda do |piece|
              own = false
              yield piece unless piece.empty?
              own = true
            end
            @inflate.inflate(bytes, &give)
            return if @inflate.finished? # after the end zlib's output has the bytes that follow

            give.call(@inflate.flush_next_out)
          rescue Zlib::Error => error
            raise own ? Damaged.new(error.message) : error
          end
        end

        # Decodes zstd (RFC 8878) by the gem zstd-ruby, which decodes all bytes of a call at once.
        class Zstandard
          PIECE_BYTES = 512
          # LAST_FRAME decodes to LAST only if all frames before it are complete.
          LAST = "end"
          LAST_FRAME = "\x28\xb5\x2f\xfd\x20\x03\x19\0\0#{LAST}".b.freeze
          private_constant :PIECE_BYTES, :LAST, :LAST_FRAME

          def initialize
            @stream = ::Zstd::StreamingDecompress.new
          end

          def decode(bytes)
            0.step(bytes.bytesize - 1, PIECE_BYTES) do |at|
              piece = decompress(bytes.byteslice(at, PIECE_BYTES))
              yield piece unless piece.empty?
            end
          end

          def finish
            # Decodes byte by byte, because otherwise zstd would forget a frame's incomplete head.
            rest = LAST_FRAME.each_char.sum("".b) { |byte| decompress(byte) }
            return false unless rest.end_with?(LAST)

            yield rest.delete_suffix(LAST) if rest != LAST
            true
          rescue Damaged
            false
          end

          def passed = 0
          def close = nil

          private

          def decompress(bytes)
            @stream.decompress(bytes).b
          rescue RuntimeError => error
            raise Damaged, error.message
          end
        end

        # Decodes br (RFC 7932) by the gem brotli.
        class Brotli
          PIECE_BYTES = 65_536
          private_constant :PIECE_BYTES

          def initialize
            @stream = ::Brotli::Decompressor.new
          end

          def decode(bytes)
            until bytes.nil?
              piece = process(bytes)
              yield piece unless piece.empty?
              bytes = finish || @stream.can_accept_more_data ? nil : ""
            end
          end

          def passed = 0
          def finish = @stream.finished?
          def close = nil

          private

          def process(bytes)
            @stream.process(bytes, output_buffer_limit: PIECE_BYTES)
          rescue ::Brotli::Error => error
            raise Damaged, error.message
          end
        end

        # Decodes a body in two codings.
        class Chain
          attr_reader :passed

          def initialize(outer, inner)
            @outer = outer
            @inner = inner
            @passed = 0
          end

          def decode(bytes, &block) = @outer.decode(bytes) { |piece| pass(piece, &block) }
          def finish(&block) = @outer.finish { |piece| pass(piece, &block) } && @inner.finish(&block)
          def close = [@outer, @inner].each(&:close)

          private

          def pass(piece, &block)
            @passed += piece.bytesize
            @inner.decode(piece, &block)
          end
        end

        CODINGS_LIMIT = 2 # each coding may multiply the bytes by 1000
        NO_CODINGS = ["", "identity", "aws-chunked"].freeze
        private_constant :CODINGS_LIMIT, :NO_CODINGS

        class << self
          # Value of a request's accept-encoding.
          def accepted = ["gzip", "deflate", ("br" if brotli?), ("zstd" if zstd?)].compact.join(", ")

          # Returns the decoder of a list of codings (RFC 9110, section 8.4); nil if there is
          # nothing to decode, a coding is unknown or there are too many.
          def for(codings)
            names = codings.downcase.split(/[\s,]+/) - NO_CODINGS
            decoders = names.reverse.filter_map { |name| decoder(name) } if names.size.between?(1, CODINGS_LIMIT)
            return decoders && decoders.each(&:close) && nil unless decoders&.size == names.size

            decoders.one? ? decoders.first : Chain.new(*decoders)
          end

          private

          def decoder(coding)
            case coding
            when "gzip", "x-gzip" then Inflate.new(Zlib::MAX_WBITS + 16)
            when "deflate" then Inflate.new
            when "br" then Brotli.new if brotli?
            when "zstd" then Zstandard.new if zstd?
            end
          end

          def brotli? = defined?(::Brotli::Decompressor)
          def zstd? = defined?(::Zstd::StreamingDecompress)
        end
      end
    end
  end
end
