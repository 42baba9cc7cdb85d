# frozen_string_literal: true

# The records of one log client on disk, while its server is away: a folder of segments, taken by a
# lock. Written and read by Gyre::Log::Backlog in one thread; another process that finds the folder
# without its owner adopts it. It sends nothing.
#
#   <folder>/<name>.<client id>/lock             flock(2) by its owner, gone with the process; in it the id's secret (identity.rb)
#                              /00000001.records  see spool/segment.rb; the oldest one first
#
#   oldest segment: [ acknowledged | given to the connection | unread ] … newest segment: [ unread ] ← append
#
# Only what is acknowledged moves a segment's position, and a segment that is done is deleted; so
# what a crash leaves behind is what was not acknowledged, or a little more, which the server
# recognises by its numbers.

require "gyre/log/wire/identity"
require "gyre/log/client/spool/folders"
require "gyre/log/client/spool/segment"
require "gyre/net/units"

module Gyre
  module Log
    # See the head of this file.
    class Spool
      # How much is read at once.
      READ_BYTES = 1 << 18
      # Segments: a sixteenth of the limit, within these.
      SEGMENT_BYTES = ((1 << 16)..(1 << 26)).freeze
      private_constant :READ_BYTES, :SEGMENT_BYTES

      # @return [Identity] the client's
      attr_reader :identity
      # @return [String]
      attr_reader :path
      # @return [Integer] bytes that it may hold
      attr_reader :limit

      # @param segments [Array<Segment>] what is there
      # @param limit [Integer] bytes of records
      # @param record_limit [Integer] bytes of one record
      # @param report [#call] is given damage, as a String
      def initialize(path, client_id, lock, segments, limit:, record_limit:, secret: nil, report: nil)
        @path = path
        @identity = Identity.new(client_id, secret)
        @lock = lock
        @segments = segments
        @limit = limit
        @record_limit = record_limit
        @report = report
        @segment_bytes = (limit / 16).clamp(SEGMENT_BYTES)
        @number = segments.empty? ? 0 : File.basename(segments.last.path).to_i
        rewind
      end

      # @return [String] 32 hexadecimal digits
      def client_id = @identity.client_id

      # Its records belong to another id from now on.
      #
      # @param identity [Identity]
      def identify(identity)
        @identity = identity
        path = @path.sub(/\h{32}\z/, identity.client_id)
        tidy("its former id") do
          @lock.pwrite(identity.secret, 0) # in one piece, and with it all is done: the folder's name only helps to find it
          File.rename(@path, path)
          @path = path
          @segments.each { |segment| segment.moved(path) }
        end
      end

      # Writes at the end; all or nothing.
      #
      # @param bytes [String] whole records
      # @return [Boolean] false: the limit allows no more
      # @raise [SystemCallError] the disk does not; nothing of it was written
      def append(bytes)
        return false if bytesize + bytes.bytesize > @limit

        last = @segments.last
        last = open_segment if last.nil? || (last.bytesize.positive? && last.size + bytes.bytesize > @segment_bytes)
        last.append(bytes)
        true
      end

      # Drops the oldest records until there is room.
      #
      # @param bytes [Integer] how much is to be appended
      # @return [Integer] how many records were dropped
      def evict(bytes)
        dropped = 0
        while (excess = bytesize + bytes - @limit).positive? && (segment = @segments.first)
          offset, count = records_within(segment, excess)
          advance(segment, count.zero? ? segment.size : offset) # what cannot be read cannot be sent either
          dropped += count
          discard_finished
        end
        rewind if dropped.positive?
        dropped
      end

      # Drops the oldest segment, which gives its room on the disk back.
      # @return [Integer] how many records were dropped
      def drop_segment
        segment = @segments.first
        _, count = records_within(segment, segment.bytesize)
        discard_first
        rewind
        count
      end

      # @return [Boolean] whether {#read} has more, damage aside
      def unread? = @segments.any? { |segment| more?(segment) }

      # The next whole records.
      #
      # @return [Array(String, Integer, Integer, Array), nil] bytes, last sequence number, count,
      #   and the position behind them
      def read
        while (segment = reading)
          offset = @at.last
          bytes, count, last = records_at(segment, offset)
          if count.positive?
            @at = [segment.number, offset + bytes.bytesize]
            return [bytes, last, count, @at]
          end
          skip(segment, offset) || cut(segment, offset)
        end
        nil
      end

      # Reads again from what is not acknowledged.
      def rewind
        first = @segments.first
        @at = first ? [first.number, first.position] : [0, 0]
      end

      # @param mark [Array] a position that {#read} gave; everything before it is done
      def acknowledge(mark)
        number, offset = mark
        @segments.each do |segment|
          done = segment.number < number ? segment.size : offset
          advance(segment, done) if segment.number <= number && done > segment.position
        end
        discard_finished
      end

      # @return [Array] the position so many bytes before another one in the same segment
      def before(mark, bytes) = [mark.first, mark.last - bytes]

      # @return [Integer] bytes of records that are not acknowledged
      def bytesize = @segments.sum(&:bytesize)

      # @return [Boolean]
      def empty? = @segments.all? { |segment| segment.bytesize.zero? }

      # The first records of some that fit into so many bytes; at least one.
      # @return [Integer] bytes
      def self.cut(bytes, limit)
        return bytes.bytesize if bytes.bytesize <= limit

        offset = 0
        while offset < bytes.bytesize
          behind = offset + bytes.unpack1("N", offset: offset) + 8
          break if behind > limit && offset.positive?

          offset = behind
        end
        offset
      end

      # Leaves it to the next client of that service.
      def close
        @segments.each(&:close)
        @lock.close
      end

      # Everything in it is done.
      def delete
        discard_first until @segments.empty?
        tidy do
          File.delete(File.join(@path, "lock"))
          Dir.rmdir(@path)
        rescue Errno::ENOENT, Errno::ENOTEMPTY, Errno::EEXIST
          nil # it is tidy, or something damaged stays for a look at it
        end
      ensure
        @lock.close
      end

      private

      def open_segment
        @number += 1
        segment = Segment.create(File.join(@path, format("%08d.records", @number)), client_id)
        @segments << segment
        @at = [segment.number, segment.position] if @segments.one?
        segment
      end

      # The segment in which reading goes on.
      def reading
        segment = @segments.find { |one| more?(one) }
        @at = [segment.number, segment.position] if segment && segment.number != @at.first
        segment
      end

      # Whether something in it was not read. A disk that was full leaves a segment without a
      # record.
      def more?(segment)
        segment.number == @at.first ? segment.size > @at.last : segment.number > @at.first && segment.bytesize.positive?
      end

      # @return [Array(String, Integer, Integer)] whole records, their count, the last number
      def records_at(segment, offset)
        bytes = segment.read(offset, READ_BYTES)
        whole, count, last = Outbox.measure(bytes, @record_limit)
        if count.zero? && bytes.bytesize == READ_BYTES # one that is longer
          bytes = segment.read(offset, @record_limit)
          whole, count, last = Outbox.measure(bytes, @record_limit)
        end
        [bytes.byteslice(0, whole), count, last]
      end

      # How far one must go to pass so many bytes, in whole records of one segment.
      # @return [Array(Integer, Integer)] offset, count
      def records_within(segment, bytes)
        offset = segment.position
        count = 0
        while offset < segment.size && offset - segment.position < bytes
          found, = records_at(segment, offset)
          break if found.empty?

          at = 0
          while at < found.bytesize && offset + at - segment.position < bytes
            at += found.unpack1("N", offset: at) + 8
            count += 1
          end
          offset += at
        end
        [offset, count]
      end

      # A record is damaged, but its length is not: a whole one stands behind it.
      # @return [Boolean, nil] nil: none does
      def skip(segment, offset)
        length = segment.read(offset, 4).unpack1("N") or return
        behind = offset + length + 8
        return if length > @record_limit || behind >= segment.size || records_at(segment, behind)[1].zero?

        @report&.call("a record of #{length + 8} bytes in the spool #{segment.path} is damaged, and left out")
        @at = [segment.number, behind]
        true
      end

      # A record was torn by a crash, or is damaged; what stands behind it has no beginning.
      def cut(segment, offset)
        @report&.call("the spool #{segment.path} ends with #{Units.count(segment.size - offset, "byte")} of an incomplete record, which are cut off")
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

      def advance(segment, offset)
        tidy { segment.position = offset }
      end

      # On a disk that takes no more: what is done is known in memory, and to the server. Only a
      # later process would send it again.
      def tidy(kept = "what is done")
        yield
      rescue SystemCallError => error
        @report&.call("the spool #{@path} keeps #{kept}: #{SystemCallError.new(nil, error.errno).message}")
      end
    end
  end
end
