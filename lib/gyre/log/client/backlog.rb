# frozen_string_literal: true

# All that a log client has and its server has not acknowledged, in order: first what is in the
# spool, then batches in memory, then the outbox. Belongs to one Gyre::Log::Sender and its thread;
# it uses no socket and no clock, and never waits.
#
#   spool (read, unread) ≺ memory ≺ outbox        flying: batches of the spool or of memory that this connection has been given
#
# While the server is away everything moves to the spool. While the spool is being sent, what is new
# goes to its end as soon as memory is short; after its last batch was given, memory's turn has
# come, and the spool takes nothing until the connection is lost.

require "gyre/log/errors"
require "gyre/log/client/spool"

module Gyre
  module Log
    # See the head of this file.
    class Backlog
      # Some whole records: their bytes, the last one's number, how many; the spool's position
      # behind them, nil in memory.
      Batch = Struct.new(:bytes, :last, :count, :mark)

      # @return [Integer] the last number that the server acknowledged
      attr_reader :acknowledged
      # @return [Integer] records that were dropped
      attr_reader :dropped
      # @return [Integer] records that went into a spool
      attr_reader :spooled
      # @return [SystemCallError, nil] why the spool takes nothing at the moment
      attr_reader :trouble

      # @param outbox [Outbox]
      # @param window [Integer] bytes in flight
      # @param memory [Integer] bytes in memory
      # @param spool [Spool, nil] one to begin with
      # @param acknowledged [Integer] the last number that is done
      # @param drop [Boolean] whether old records make room for new ones
      # @yieldreturn [Spool, nil] a new spool, asked for when one is needed
      def initialize(outbox, window:, memory:, drop: false, spool: nil, acknowledged: 0, &make_spool)
        @outbox = outbox
        @window = window
        @memory_limit = memory
        @drop = drop
        @make_spool = make_spool
        @spool = spool
        @adopted = !spool.nil? # its process may have sent more than what is in it
        @memory = []
        @flying = []
        @flying_bytes = 0
        @acknowledged = @given = acknowledged
        @dropped = @spooled = 0
        finish_spool
      end

      # The next records for the connection.
      # @return [Batch, nil] nil when there are none, or too much is in flight
      def give
        return if @flying_bytes >= @window && @flying.any?

        while (batch = read_spool || @memory.shift || taken)
          @given = batch.last if batch.last > @given
          @flying << batch
          @flying_bytes += batch.bytes.bytesize
          return batch if batch.last > @acknowledged

          acknowledge(@acknowledged) # the server had it already
        end
      end

      # @param number [Integer] the server has everything up to it
      # @return [Integer] batches that are done
      def acknowledge(number)
        raise IdentityTaken, "#{number} was acknowledged, but never sent: another client has this one's id" if number > @given && !@adopted

        @acknowledged = number if number > @acknowledged
        done = 0
        while (batch = @flying.first) && batch.last <= number
          finish(@flying.shift)
          done += 1
        end
        finish_spool if done.positive?
        done
      end

      # The connection is gone: what was given and not acknowledged will be given again.
      # @param unfinished [Batch, nil] what was being written on the old wire
      # @param offset [Integer] where in it the first record begins that was not wholly written
      def rewind(unfinished = nil, offset = 0)
        first = @flying.first
        offset = Outbox.after(first.bytes, @acknowledged) unless unfinished || first.nil?
        trim(first, offset) if offset.positive?
        again = @flying.select { |batch| batch.mark.nil? }
        @memory.unshift(*again)
        @flying.clear
        @flying_bytes = 0
        @spool&.rewind
      end

      # What is not acknowledged belongs to another id from now on. Only without a connection.
      # @param identity [Identity]
      def identify(identity)
        @spool&.identify(identity)
        @adopted = false
      rescue SystemCallError => error
        @trouble = error # this process goes on; only another one would send the spool under the id before
      end

      # Moves everything into the spool.
      # @param drop [Boolean] whether old records make room; never while some of them are in flight
      # @return [Boolean] false: there was no room for all of it
      def store(drop: @drop)
        @trouble = nil
        while (batch = @memory.first || taken&.tap { |new| @memory << new })
          return false unless spool_takes?(batch, drop)

          @memory.shift
        end
        true
      end

      # While the spool is being sent: what is new goes behind it when memory is half full.
      # @return [Boolean] false when it has to wait in memory
      def overflow
        return true unless @spool&.unread? && @memory.empty? && @outbox.bytesize > @memory_limit / 2

        store(drop: false)
      end

      # Drops the oldest records, a handful at once, if that is the policy: for when there is no
      # spool, or its disk is full.
      def drop_oldest
        return unless @drop

        if @spool && !@spool.empty?
          @dropped += @spool.drop_segment
          return finish_spool
        end
        @dropped += forget(@memory.shift || taken)
      end

      # Drops everything in memory.
      # @return [Integer] how many records
      def abandon
        count = 0
        while (batch = @memory.shift || taken)
          count += forget(batch)
        end
        @dropped += count
        count
      end

      # @return [Boolean] whether a spool is possible
      def spools? = !@make_spool.nil?

      # @return [Boolean] whether something was given and not acknowledged
      def flying? = @flying.any?

      # @return [Boolean] nothing at all is left
      def empty? = @flying.empty? && @memory.empty? && @outbox.bytesize.zero? && @spool.nil?

      # @return [Boolean] whether give would, if the window allowed it
      def any? = @memory.any? || @outbox.bytesize.positive? || @spool&.unread?

      # @return [Integer] bytes that wait, in memory and in the spool
      def bytesize = @outbox.bytesize + @outbox.held + spool_bytesize

      # @return [Integer]
      def spool_bytesize
        spool = @spool
        spool ? spool.bytesize : 0
      end

      # The spool stays for another process.
      def close
        @spool&.close
        @spool = nil
      end

      private

      def read_spool
        return unless @spool&.unread?

        bytes, last, count, mark = @spool.read
        return Batch.new(bytes, last, count, mark) if bytes

        finish_spool # it ended with something damaged
        nil
      end

      def taken
        entry = @outbox.take or return
        batch = Batch.new(*entry)
        @outbox.held += batch.bytes.bytesize
        batch
      end

      def forget(batch)
        return 0 unless batch

        @outbox.held -= batch.bytes.bytesize
        batch.count
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

      # The first bytes of a batch are done.
      def trim(batch, offset)
        return @spool.acknowledge(@spool.before(batch.mark, batch.bytes.bytesize - offset)) if batch.mark

        @outbox.held -= offset
        batch.bytes = batch.bytes.byteslice(offset..)
        batch.count = Outbox.measure(batch.bytes, batch.bytes.bytesize).fetch(1)
      end

      # Moves a batch into the spool, in pieces, so that as much as possible fits.
      def spool_takes?(batch, drop)
        return false unless (@spool ||= @make_spool&.call)

        until batch.bytes.empty?
          bytes = Spool.cut(batch.bytes, @spool.limit / 4)
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
