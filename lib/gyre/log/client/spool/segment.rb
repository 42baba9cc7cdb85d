# frozen_string_literal: true

# One file of a log client's spool: a header, then records as they go over the wire.
# Gyre::Log::Spool keeps a row of them. It finds where its records begin and end, not what is in
# them.
#
#    0  8 bytes "GYRELOG1"       8  16 bytes first client id  24  u32 CRC-32 of these 24 bytes        (all big-endian)
#   32  u64 position, u32 CRC-32 of it      48  the same again: the two are written in turn, and the higher valid one counts,
#       so that a write which is torn by a crash leaves the other one
#   64  records; everything before the position is acknowledged

require "gyre/log/client/spool/segment_file"
require "zlib"

module Gyre
  module Log
    class Spool
      # See the head of this file.
      class Segment
        MAGIC = "GYRELOG1"
        HEADER_BYTES = 64
        SLOTS = [32, 48].freeze
        private_constant :MAGIC, :SLOTS

        include SegmentFile

        # @return [Integer] its place in the row
        attr_reader :number

        class << self
          # @return [Segment] a new, empty one
          # @raise [SystemCallError]
          def create(path, client_id)
            new(path, SegmentFile.create(path, head(client_id).ljust(HEADER_BYTES, "\0")), HEADER_BYTES, HEADER_BYTES)
          end

          # @return [Segment, nil] one that is there. nil: its header is not that of a segment. It
          #   was torn when it was made and is deleted, or it was damaged and is put aside
          # @raise [SystemCallError]
          def open(path, report = nil)
            file = Trust.open(path)
            size = file.size
            head = size.zero? ? "" : file.pread([size, HEADER_BYTES].min, 0)
            return new(path, file, [position(head), size].min, size) if genuine?(head)

            file.close
            return File.delete(path) && nil if size <= HEADER_BYTES

            File.rename(path, "#{path}.damaged")
            report&.call("the head of #{path} is damaged; the file is kept as #{path}.damaged")
            nil
          end

          # @return [String] the part of the header with the client's id
          def head(client_id)
            head = MAGIC.b + [client_id].pack("H*")
            head << [Zlib.crc32(head)].pack("N")
          end

          private

          def genuine?(head)
            head.bytesize == HEADER_BYTES && head.start_with?(MAGIC) &&
              head.unpack1("N", offset: 24) == Zlib.crc32(head.byteslice(0, 24))
          end

          def position(head)
            SLOTS.filter_map do |slot|
              position, crc = head.unpack("Q>N", offset: slot)
              position if position >= HEADER_BYTES && crc == Zlib.crc32(head.byteslice(slot, 8))
            end.max || HEADER_BYTES
          end
        end

        def initialize(path, file, position, size)
          @path = path
          @file = file
          @position = position
          @size = size
          @number = File.basename(path).to_i
          @turn = 0
        end

        # @param bytes [String]
        # @raise [SystemCallError] nothing of it is in the file then
        def append(bytes)
          written = 0
          while written < bytes.bytesize
            written += @file.pwrite(written.zero? ? bytes : bytes.byteslice(written..), @size + written)
          end
          @size += written
        rescue SystemCallError
          @file.truncate(@size)
          raise
        end

        # @param offset [Integer] everything before it is acknowledged
        def position=(offset)
          @position = offset
          packed = [offset].pack("Q>")
          @file.pwrite(packed << [Zlib.crc32(packed)].pack("N"), SLOTS[@turn ^= 1])
        end

        # Its folder has another name now.
        def moved(folder)
          @path = File.join(folder, File.basename(@path))
        end
      end
    end
  end
end
