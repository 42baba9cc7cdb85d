# frozen_string_literal: true

# Decoders of content codings for Response. Each yields pieces of bounded size, so that a small body
# cannot become a large String before it is counted.

require "zlib"

module Gyre
  module HTTP
    class Client
      module Decoders
        # gzip (RFC 1952), and deflate with or without zlib's frame (RFC 1950, RFC 1951).
        class Inflate
          def initialize(window_bits, perhaps_raw: false)
            @inflate = Zlib::Inflate.new(window_bits)
            @perhaps_raw = perhaps_raw
          end

          def decode(bytes, &block)
            @inflate.inflate(bytes, &block) unless @inflate.finished?
            @perhaps_raw = false
          rescue Zlib::DataError
            raise unless @perhaps_raw

            @perhaps_raw = false
            close
            @inflate = Zlib::Inflate.new(-Zlib::MAX_WBITS) # some servers leave the frame out
            retry
          end

          def finished? = @inflate.finished?

          def close
            @inflate.reset # otherwise an unfinished one warns
            @inflate.close
          end
        end

        # RFC 8878, by the gem zstd-ruby, which decodes a call's bytes at once.
        class Zstandard
          PIECE_BYTES = 512
          private_constant :PIECE_BYTES

          def initialize
            @stream = ::Zstd::StreamingDecompress.new
          end

          def decode(bytes)
            0.step(bytes.bytesize - 1, PIECE_BYTES) { |at| yield @stream.decompress(bytes.byteslice(at, PIECE_BYTES)) }
          end

          def finished? = true
          def close = nil
        end

        class << self
          # The accept-encoding of requests.
          def accepted = ["gzip", "deflate", ("zstd" if defined?(::Zstd::StreamingDecompress))].compact.join(", ")

          # Returns nil for an unknown coding.
          def for(coding)
            case coding.downcase
            when "gzip", "x-gzip" then Inflate.new(Zlib::MAX_WBITS + 16)
            when "deflate" then Inflate.new(Zlib::MAX_WBITS, perhaps_raw: true)
            when "zstd" then Zstandard.new if defined?(::Zstd::StreamingDecompress)
            end
          end
        end
      end
    end
  end
end
