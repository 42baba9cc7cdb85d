# frozen_string_literal: true

# Keeps all unacknowledged records in order: first the spool, then batches in memory, then the
# outbox. Belongs to one Gyre::Log::Delivery. Uses no socket and no clock, and never waits.
#
# Batches that the connection has are in @flying until they are acknowledged. If the server is
# unreachable, all records move to the spool. While the spool is sent, new records are appended to
# it if memory is half full.

require "gyre/log/errors"
require "gyre/log/disk_queue"

module Gyre
  module Log
    class Backlog
      # Whole records. `mark` is the spool's position after them, or nil if they are in memory.
      Batch = Struct.new(:bytes, :last, :count, :mark)

      attr_reader :dropped, :spooled # numbers of records
      attr_reader :acknowledged # the last number that the server acknowledged
      attr_reader :trouble # why the spool takes nothing now, or nil

      # `memory` is the limit in bytes; half of it may be in flight. `drop` lets new records replace
      # old records. The block makes the spool.
      def initialize(outbox, memory:, drop: false, spool: nil, acknowledged: 0, &make_spool)
        @outbox, @memory_limit, @drop, @make_spool, @spool = outbox, memory, drop, make_spool, spool
        @adopted = !spool.nil? # its process may have sent more than the spool holds
        @memory = []
        @flying = []
        @flying_bytes = @dropped = @spooled = 0
        @acknowledged = @given = acknowledged
        finish_spool
      end

      # Returns the next batch for the connection; nil if there is none or too much is in flight.
      def give
        return if @flying_bytes >= @memory_limit / 2 && flying?

        while (batch = read_spool || @memory.shift || taken)
          @given = batch.last if batch.last > @given
          @flying << batch
          @flying_bytes += batch.bytes.bytesize
          return batch if batch.last > @acknowledged

          acknowledge(@acknowledged) # the server had it already
        end
      end

      def acknowledge(number)
        raise IdentityTaken, "#{number} was acknowledged, but never sent: another client has this one's id" if number > @given && !@adopted

        @acknowledged = number if number > @acknowledged
        finish(@flying.shift) while flying? && @flying.first.last <= number
        finish_spool
      end

      # Queues unacknowledged records for the next connection. In Analogger's protocol, `unfinished`
      # is the batch that was being sent, and its records before `offset` were sent.
      def rewind(unfinished = nil, offset = 0)
        first = @flying.first
        offset = Outbox.after(first.bytes, @acknowledged) unless unfinished || first.nil?
        trim(first, offset) if offset.positive?
        @memory.unshift(*@flying.select { |batch| batch.mark.nil? })
        @flying.clear
        @flying_bytes = 0
        @spool&.rewind
      end

      # Assigns a new client id to unacknowledged records. No connection may be open.
      def identify(identity)
        @spool.note = identity.secret if @spool
        @adopted = false
      end

      def store(drop: @drop)
        @trouble = nil
        while (batch = @memory.first || taken&.tap { |new| @memory << new })
          return false unless spool_takes?(batch, drop)

          @memory.shift
        end
        true
      end

      # If memory is half full, appends new records to the spool that is being sent. Returns false
      # if the spool does not take all of them.
      def overflow
        return true unless @spool&.unread? && @memory.empty? && @outbox.bytesize > @memory_limit / 2

        store(drop: false)
      end

      # If `drop` is set, drops the spool's oldest segment; if the spool is empty, the oldest batch.
      def drop_oldest
        return unless @drop
        return forget unless @spool && !@spool.empty?

        @dropped += @spool.evict_segment
        finish_spool
      end

      # Drops all records in memory. Returns their number.
      def abandon
        before = @dropped
        nil while forget
        @dropped - before
      end

      def spools? = !@make_spool.nil?

      def flying? = @flying.any?

      def empty? = !flying? && @memory.empty? && @outbox.bytesize.zero? && @spool.nil?

      # True if there are records that the connection does not have yet.
      def any? = @memory.any? || @outbox.bytesize.positive? || @spool&.unread?

      def bytesize = @outbox.bytesize + @outbox.held + spool_bytesize

      def spool_bytesize = @spool&.bytesize.to_i

      # Closes the spool, so that another process may send it. Returns the spool's path.
      def close
        spool, @spool = @spool, nil
        spool&.close
        spool&.path
      end

      private

      def read_spool
        return unless @spool&.unread?

        batch = Batch.new(*@spool.read)
        batch.bytes ? batch : finish_spool # the spool ended with something damaged
      end

      def taken
        entry = @outbox.take or return
        batch = Batch.new(*entry)
        @outbox.held += batch.bytes.bytesize
        batch
      end

      # Drops the oldest batch in memory. Returns nil if there is none.
      def forget
        batch = @memory.shift || taken or return
        @outbox.held -= batch.bytes.bytesize
        @dropped += batch.count
      end

      def finish(batch)
        @flying_bytes -= batch.bytes.bytesize
        batch.mark ? @spool.acknowledge(batch.mark) : @outbox.held -= batch.bytes.bytesize
      end

      def finish_spool
        return unless @spool && @spool.empty?

        @spool.delete
        @spool = nil
      end

      # Removes the bytes before `offset` from a batch: they were sent, or are in the spool.
      def trim(batch, offset)
        return @spool.acknowledge(@spool.before(batch.mark, batch.bytes.bytesize - offset)) if batch.mark

        @outbox.held -= offset
        batch.bytes = batch.bytes.byteslice(offset..)
        batch.count = Outbox.measure(batch.bytes, batch.bytes.bytesize).fetch(1)
      end

      # Moves a batch into the spool in pieces. Returns false if the spool does not take all pieces.
      def spool_takes?(batch, drop)
        return false unless (@spool ||= @make_spool&.call)

        until batch.bytes.empty?
          bytes = DiskQueue.cut(batch.bytes, @spool.limit / 4)
          @dropped += @spool.evict(bytes) if drop
          return false unless @spool.append(bytes == batch.bytes.bytesize ? batch.bytes : batch.bytes.byteslice(0, bytes))

          before = batch.count
          trim(batch, bytes)
          @spooled += before - batch.count
        end
        true
      rescue SystemCallError => error
        @trouble = error
        false
      end
    end
  end
end
