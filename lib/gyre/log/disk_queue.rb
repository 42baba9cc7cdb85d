# frozen_string_literal: true

# A queue of records on disk: a locked folder of segment files. Clients keep unsent records in it
# (client/spools.rb), a server keeps lines for an output (output/spill.rb). Only {#sync} syncs.
#
#   <folder>/lock               flock(2) of the owner; contains a note, such as a client's secret
#           /00000001.records   a segment (disk_queue/segment.rb); the lowest number is the oldest
#
#   oldest segment: [ done | given out | unread ] … newest segment: [ unread ] ← append
#
# Only {#acknowledge} and {#evict} advance a segment's position, so that a crash loses no unfinished
# record. Reports damaged records, and keeps their segments as *.damaged.

require "gyre/log/disk_queue/segment"
require "gyre/loop"
require "gyre/settings/units"

Gyre::Loop.define_native(:log)

module Gyre
  module Log
    class DiskQueue
      READ_BYTES = 1 << 18
      NAME = /\A\d+\.records\z/.freeze

      attr_reader :path
      attr_reader :limit

      # Returns the length of the whole records within `limit`, or of the first if it is longer.
      def self.cut(bytes, limit)
        return bytes.bytesize if bytes.bytesize <= limit

        whole, = Outbox.measure(bytes.byteslice(0, limit), limit)
        whole.positive? ? whole : bytes.unpack1("N") + Records::HEADER_BYTES
      end

      def initialize(path, lock, limit:, record_limit:, segment_bytes:, format: :records, report: nil)
        @path, @lock, @format, @report = path, lock, format, report
        @limit, @record_limit, @segment_bytes = limit, record_limit, segment_bytes
        @segments = []
        restore_names
        names = Dir.children(path).sort_by(&:to_i)
        @number = names.last.to_i # files that were put aside count
        names.grep(NAME).each { |name| Segment.open(File.join(path, name), format, report)&.then { |segment| @segments << segment } }
        @found_last = @segments.last # a kill can have torn no other segment
        discard_finished
        rewind
      rescue StandardError
        close
        raise
      end

      def note = @lock.pread(@lock.size, 0)

      def note=(text)
        tidy("its former note") { @lock.pwrite(text, 0) }
      end

      def append(bytes, &write)
        return false unless room?(bytes.bytesize)

        open_segment if starts_segment?(bytes.bytesize)
        @segments.last.append(bytes, &write)
        true
      end

      def room?(bytes) = bytesize + bytes <= @limit

      def starts_segment?(bytes)
        last = @segments.last
        last.nil? || !last.ours? || (last.bytesize.positive? && last.size + bytes > @segment_bytes)
      end

      def last = @segments.last

      def one_segment? = @segments.one?

      def evict(bytes)
        dropped = 0
        while (excess = bytesize + bytes - @limit).positive? && !empty?
          segment = @segments.first
          found, = records_at(segment, segment.position)
          whole = DiskQueue.cut(found, excess)
          dropped += Outbox.measure(found.byteslice(0, whole), @record_limit)[1]
          found.empty? ? segment.damaged!(segment.position) : advance(segment, segment.position + whole)
          discard_finished
        end
        rewind if dropped.positive?
        dropped
      end

      # Drops the oldest segment to free disk space.
      def evict_segment = evict(@limit - bytesize + @segments.first.bytesize)

      def unread? = @segments.any? { |segment| more?(segment) }

      def read
        while (segment = reading)
          offset = @at.last
          bytes, count, last = records_at(segment, offset)
          if count.positive?
            @at = [segment.number, offset + bytes.bytesize]
            return [bytes, last, count, @at]
          end
          skip(segment, offset)
        end
        nil
      end

      # Makes {#read} start again at the first unacknowledged record.
      def rewind
        first = @segments.first
        @at = first ? [first.number, first.position] : [0, 0]
      end

      def acknowledge(mark)
        number, offset = mark
        @segments.each do |segment|
          done = segment.number < number ? segment.size : offset
          advance(segment, done) if segment.number <= number && done > segment.position
        end
        discard_finished
      end

      def before(mark, bytes) = [mark.first, mark.last - bytes]

      def end_mark = [@segments.last.number, @segments.last.size]

      def bytesize = @segments.sum(&:bytesize)

      def empty? = @segments.all? { |segment| segment.bytesize.zero? }

      def sync = @segments.last&.sync

      def close = [*@segments, @lock].each(&:close)

      def clear
        discard_first until @segments.empty?
      end

      def delete
        clear
        tidy do
          File.delete(File.join(@path, "lock"))
          Dir.rmdir(@path)
        rescue Errno::ENOENT, Errno::ENOTEMPTY, Errno::EEXIST
          nil # removed already, or something damaged stays for inspection
        end
      ensure
        @lock.close
      end

      private

      def restore_names = Dir.glob("*#{Disk::AWAY}", base: @path) { |name| Disk.restore_name(File.join(@path, name.delete_suffix(Disk::AWAY))) }

      def open_segment
        @number += 1
        segment = Segment.create(File.join(@path, format("%08d.records", @number)), @format)
        @segments << segment
        rewind if @segments.one?
      end

      def reading
        segment = @segments.find { |one| more?(one) }
        @at = [segment.number, segment.position] if segment && segment.number != @at.first
        segment
      end

      # True if the segment has unread records. A full disk may leave a segment without records.
      def more?(segment) = segment.number == @at.first ? segment.size > @at.last : segment.number > @at.first && segment.bytesize.positive?

      def records_at(segment, offset)
        bytes = segment.read(offset, READ_BYTES)
        whole, count, last = Outbox.measure(bytes, @record_limit)
        if count.zero? && bytes.bytesize == READ_BYTES # the first record is longer
          bytes = segment.read(offset, [length_at(segment, offset), @record_limit].min)
          whole, count, last = Outbox.measure(bytes, @record_limit)
        end
        [bytes.byteslice(0, whole), count, last]
      end

      def length_at(segment, offset)
        length = segment.read(offset, 4).unpack1("N")
        length && (length + Records::HEADER_BYTES)
      end

      # Skips a damaged record, or the rest of its segment if no whole record follows.
      def skip(segment, offset)
        behind = offset + (length_at(segment, offset) || @record_limit)
        return cut(segment, offset) if behind > segment.size && segment.equal?(@found_last)

        whole = behind < segment.size && records_at(segment, behind)[1].positive?
        bytes = Units.count((whole ? behind : segment.size) - offset, "byte")
        @report&.call("#{bytes} of #{segment.path} are damaged, and left out: it is kept as #{segment.path}.damaged") unless segment.damaged?
        segment.damaged!(whole ? segment.size : offset)
        whole ? @at = [segment.number, behind] : discard_finished
      end

      def cut(segment, offset)
        @report&.call("#{segment.path} ends with #{Units.count(segment.size - offset, "byte")} of an incomplete record, which are cut off")
        segment.cut(offset)
        discard_finished
      end

      def discard_finished
        discard_first while @segments.size > 1 && @segments.first.bytesize.zero?
      end

      def discard_first
        segment = @segments.shift
        tidy { segment.delete }
      end

      def advance(segment, offset) = tidy { segment.position = offset }

      # Reports errors of the disk and continues. A position that could not be written is still
      # known in memory, so only a later process would send finished records again.
      def tidy(kept = "what is done")
        yield
      rescue SystemCallError => error
        @report&.call("#{@path} keeps #{kept}: #{SystemCallError.new(nil, error.errno).message}")
      end
    end
  end
end
