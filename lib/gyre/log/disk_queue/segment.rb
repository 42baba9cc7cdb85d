# frozen_string_literal: true

# One file of a Gyre::Log::DiskQueue: a header and records in wire format. Never parses records.
#
#    0  8 bytes "GYREQUE1"     8  8 bytes name of the records' format, zeros   16  u32 CRC-32 of these 16 bytes   (all big-endian)
#   32  u64 position, u32 CRC-32 of the position    48  the same. Updates alternate between the two;
#       the higher valid position counts. A torn write leaves the other position valid.
#   64  the records, of which those before the position are done

require "gyre/log/disk"
require "gyre/log/ownership"
require "gyre/log/wire/records"
require "zlib"

module Gyre
  module Log
    class DiskQueue
      class Segment
        # A segment with records of another format.
        class Foreign < ArgumentError; end

        MAGIC = "GYREQUE1"
        HEADER_BYTES = 64
        SLOTS = [32, 48].freeze

        attr_reader :path
        attr_reader :number
        attr_reader :position
        attr_reader :size

        class << self
          def create(path, format)
            file = File.open(path, File::RDWR | File::CREAT | File::EXCL | File::BINARY, 0o600)
            file.pwrite(head(format), 0)
            new(path, file, HEADER_BYTES, HEADER_BYTES, ours: true)
          rescue SystemCallError
            file&.close
            File.delete(path) if file
            raise
          end

          def open(path, format, report = nil)
            file = Ownership.open(path)
            size = file.size
            head = size.zero? ? "" : file.pread([size, HEADER_BYTES].min, 0)
            return File.delete(path) && nil if size < HEADER_BYTES && head(format).start_with?(head) # killed while it was made
            return put_aside(path, report) unless genuine?(head)

            found = head.byteslice(8, 8).delete("\0")
            raise Foreign, "#{path} holds #{found}, not #{format}" unless found == format.to_s

            segment = new(path, file, [position(head), size].min, size)
          ensure
            file&.close unless segment
          end

          private

          def head(format)
            head = [MAGIC, format.to_s].pack("a8a8")
            (head << [Zlib.crc32(head)].pack("N")).ljust(HEADER_BYTES, "\0")
          end

          def genuine?(head)
            head.bytesize == HEADER_BYTES && head.start_with?(MAGIC) &&
              head.unpack1("N", offset: 16) == Zlib.crc32(head.byteslice(0, 16))
          end

          def position(head)
            SLOTS.filter_map do |slot|
              position, crc = head.unpack("Q>N", offset: slot)
              position if position >= HEADER_BYTES && crc == Zlib.crc32(head.byteslice(slot, 8))
            end.max || HEADER_BYTES
          end

          def put_aside(path, report)
            File.rename(path, "#{path}.damaged")
            report&.call("the head of #{path} is damaged, or of another version; the file is kept as #{path}.damaged")
            nil
          end
        end

        def initialize(path, file, position, size, ours: false)
          @path, @file, @position, @size, @ours = path, file, position, size, ours
          @number = File.basename(path).to_i
          @turn = 0
          @durable = 0
          @damaged = false
          file.sync = true
        end

        def ours? = @ours && !@damaged

        def bytesize = @size - @position

        def read(offset, bytes)
          count = [bytes, @size - offset].min
          count.positive? ? @file.pread(count, offset) : "".b
        end

        def append(bytes)
          @file.seek(@size)
          block_given? ? yield(@file) : @file.write(bytes)
          @size += bytes.bytesize
          whole = true
        ensure
          @file.truncate(@size) unless whole || @file.closed?
        end

        def position=(offset)
          @position = offset
          packed = [offset].pack("Q>")
          @file.pwrite(packed << [Zlib.crc32(packed)].pack("N"), SLOTS[@turn ^= 1])
        end

        # Makes the file and its name durable. Blocks.
        def sync
          size = @size
          Disk.sync(@file)
          Disk.sync_folder(@path) if @durable.zero?
          @durable = size
        end

        def synced? = @durable == @size

        def doubtful = read([@durable, HEADER_BYTES].max, @size)

        # Writes the bytes again after a failed sync, to other blocks.
        def write_again(bytes)
          @file.truncate(@size - bytes.bytesize)
          @file.seek(@size - bytes.bytesize)
          @file.write(bytes)
          Disk.refresh_name(@path) if @durable.zero?
        end

        def cut(offset)
          @size = offset
          @file.truncate(offset)
        end

        # Marks the bytes after the offset as damaged. The file is then kept for inspection.
        def damaged!(offset)
          @damaged = true
          @size = offset
        end

        def damaged? = @damaged

        def close = @file.close

        def delete
          close
          @damaged ? File.rename(@path, "#{@path}.damaged") : File.delete(@path)
        rescue Errno::ENOENT
          nil # removed already
        end
      end
    end
  end
end
