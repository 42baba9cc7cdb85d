# frozen_string_literal: true

# One file of a spill: batches one after the other. Gyre::Log::Output::Spill keeps a row of them. It
# finds where batches begin and end, and how far they are drained; it decides nothing. All numbers
# are big-endian.
#
#    0  11 bytes "GYRESPILL1\n"     11  u8 format     12  u64 position: all before it is drained     20  batches
#
#   batch:  u64 length of the lines, u32 length of the clients, u32 CRC-32 of the lines, u32 CRC-32 of all before and of the clients,
#           clients (id 16 bytes, u64 sequence number), lines

require "gyre/log/output/checksum"
require "gyre/log/output/writing"
require "gyre/log/client/spool/segment_file"

module Gyre
  module Log
    module Output
      class Spill
        # See the head of this file.
        class Segment
          MAGIC = "GYRESPILL1\n"
          FORMATS = %i[text json redis].freeze
          HEADER_BYTES = 20
          POSITION_AT = 12
          HEAD_BYTES = 20
          CLIENT_BYTES = 24
          private_constant :MAGIC, :FORMATS, :POSITION_AT

          # It holds lines of another format than the output's.
          class Foreign < ArgumentError; end

          include Spool::SegmentFile

          class << self
            # @return [Segment] a new, empty one
            # @raise [SystemCallError]
            def create(path, format)
              header = [MAGIC, FORMATS.index(format), HEADER_BYTES].pack("a11CQ>")
              new(path, Spool::SegmentFile.create(path, header), HEADER_BYTES, HEADER_BYTES)
            end

            # @return [Segment, nil] one that is there; nil: it was torn when it was made, and is
            #   deleted
            # @raise [Foreign]
            # @raise [SystemCallError] also when it may be another user's
            def open(path, format)
              file = Spool::Trust.open(path)
              size = file.size
              return ::File.delete(path) && nil if size < HEADER_BYTES

              magic, number, position = file.pread(HEADER_BYTES, 0).unpack("a11CQ>")
              raise Foreign, "#{path} is no segment of a spill" unless magic == MAGIC
              raise Foreign, "#{path} holds #{FORMATS[number] || "unknown"} lines, not #{format}" unless FORMATS[number] == format

              segment = new(path, file, position, size)
            ensure
              file&.close unless segment
            end

            # @return [String] what stands before the lines of a batch
            def head(data, clients)
              ids = clients.to_a.flatten.pack("H32Q>" * clients.size)
              sizes = [data.bytesize, ids.bytesize, Checksum.of(data)].pack("Q>L>L>")
              sizes << [Checksum.of(sizes + ids)].pack("L>") << ids
            end
          end

          def initialize(path, file, position, size)
            @path, @file, @position, @size = path, file, position, size
            @first_end = nil # offset behind the first batch that is not drained, where known
            file.sync = true
          end

          # Looks for the batches.
          #
          # @param last [Boolean] whether it may end with a torn one, which is cut off
          # @yieldparam clients [Hash{String => Integer}] of each batch that is not drained
          # @return [Integer] bytes that were cut off
          def recover(last:)
            at = drained = HEADER_BYTES
            while (lines_at, length, clients, crc = look(at)) && lines_at
              break if last && Checksum.of(read(lines_at, length)) != crc

              at >= @position ? yield(clients) : drained = lines_at + length
              at = lines_at + length
            end
            @position = drained
            torn = @size - at
            return 0 unless last && torn.positive?

            cut(at)
            torn
          end

          # @return [Boolean] whether all is drained
          def drained? = @position >= @size

          # Adds a batch. It counts when all of it is written.
          #
          # @param retries [Retry]
          # @yield before each try to write; when it throws, nothing was added
          def append(head, data, retries, &before)
            whole = false
            alone = drained?
            @file.seek(@size)
            [head, data].each { |bytes| Writing.put(@file, bytes, retries, &before) }
            @size += head.bytesize + data.bytesize
            @first_end = @size if alone
            whole = true
          ensure
            @file.truncate(@size) unless whole || @file.closed?
          end

          # @return [Array(String, Hash), nil] lines and clients of the first batch that is not
          #   drained; nil: it is damaged
          def first
            lines_at, length, clients, crc = look(@position)
            lines = lines_at && read(lines_at, length)
            return unless lines && Checksum.of(lines) == crc

            @first_end = lines_at + length
            [lines, clients]
          rescue EOFError # others have cut it
            nil
          end

          # The first batch, which was read or is the only one, is drained. That is written, not
          # synced: a power failure may bring it back.
          # @raise [SystemCallError] it could not be written, but counts here
          def shift
            @position, @first_end = @first_end, nil
            @file.pwrite([@position].pack("Q>"), POSITION_AT)
          end

          # For a thread, it blocks.
          # @raise [SystemCallError]
          def sync = Writing.sync(@file)

          # @return [String] all behind an offset
          def tail(from) = read(from, @size - from)

          # Writes once more what stands behind an offset, to other blocks: a sync has failed.
          # @raise [SystemCallError]
          def write_again(from, bytes)
            @file.truncate(from)
            @file.seek(from)
            @file.write(bytes)
          end

          private

          # @return [Array(Integer, Integer, Hash, Integer), nil] where the lines of the batch at
          #   this offset are, their length, the clients, the lines' checksum; nil when there is no
          #   whole one
          def look(at)
            return if at + HEAD_BYTES > @size

            sizes, crc = read(at, HEAD_BYTES).unpack("a16L>")
            length, ids_length, lines_crc = sizes.unpack("Q>L>L>")
            lines_at = at + HEAD_BYTES + ids_length
            return if lines_at + length > @size

            ids = read(at + HEAD_BYTES, ids_length)
            return unless Checksum.of(sizes + ids) == crc

            [lines_at, length, ids.unpack("H32Q>" * (ids_length / CLIENT_BYTES)).each_slice(2).to_h, lines_crc]
          end
        end
      end
    end
  end
end
