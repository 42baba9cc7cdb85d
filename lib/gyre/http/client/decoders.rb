# frozen_string_literal: true

# Decoders of content codings for Response. They yield bounded pieces, so that a small body cannot
# expand into a large String before its size is checked.

require "gyre/errors"
require "zlib"

module Gyre
  module HTTP
    class Client
      # A decoder has decode(bytes), finish and close. decode yields pieces. finish yields the rest
      # and returns whether the body is complete.
      module Decoders
        # The compressed body is malformed or truncated.
        Damaged = Class.new(Gyre::ProtocolError)

        # Decodes gzip (RFC 1952), zlib (RFC 1950) and raw deflate (RFC 1951).
        class Inflate
          def initialize(window_bits, perhaps_raw: false)
            @inflate = Zlib::Inflate.new(window_bits)
            @perhaps_raw = perhaps_raw
          end

          # A gzip body may have several members (RFC 1952, section 2.2).
          def decode(bytes)
            until bytes.empty?
              @inflate.reset if @inflate.finished?
              before = @inflate.total_in
              inflate(bytes) { |piece| yield piece }
              @perhaps_raw = false
              bytes = bytes.byteslice((@inflate.total_in - before)..)
            end
          end

          def finish = @inflate.finished?

          def close
            @inflate.reset # otherwise zlib would warn about an unfinished stream
            @inflate.close
          end

          private

          def inflate(bytes)
            own = true
            @inflate.inflate(bytes) do |piece|
              own = false
              yield piece
              own = true
            end
          rescue Zlib::Error => error
            raise unless own
            raise Damaged, error.message unless @perhaps_raw

            @perhaps_raw = false
            close
            @inflate = Zlib::Inflate.new(-Zlib::MAX_WBITS) # some servers send raw deflate
            retry
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

          def finish = @stream.finished?
          def close = nil

          private

          def process(bytes)
            @stream.process(bytes, output_buffer_limit: PIECE_BYTES)
          rescue ::Brotli::Error => error
            raise Damaged, error.message
          end
        end

        class << self
          # Value of a request's accept-encoding.
          def accepted = ["gzip", "deflate", ("br" if brotli?), ("zstd" if zstd?)].compact.join(", ")

          # Returns nil for an unknown coding.
          def for(coding)
            case coding.downcase
            when "gzip", "x-gzip" then Inflate.new(Zlib::MAX_WBITS + 16)
            when "deflate" then Inflate.new(Zlib::MAX_WBITS, perhaps_raw: true)
            when "br" then Brotli.new if brotli?
            when "zstd" then Zstandard.new if zstd?
            end
          end

          private

          def brotli? = defined?(::Brotli::Decompressor)
          def zstd? = defined?(::Zstd::StreamingDecompress)
        end
      end
    end
  end
end
