# frozen_string_literal: true

# CRC-32 of many bytes, by the extension: six times as fast as zlib's. Used for the batches of a
# journal, which have megabytes; Zlib does for everything small, and comes to the same number.

module Gyre
  module Log
    # See the head of this file.
    module Checksum
      # @param bytes [String]
      # @return [Integer] as Zlib.crc32
      def self.of(bytes)
        require "gyre/log/ingest"
        Ingest.crc32(bytes)
      end
    end
  end
end
