# frozen_string_literal: true

# What makes a log file remember its acknowledged clients: `<logfile>.journal`, beside it. Written
# by Output::File, read again by Recovery when the server starts. An entry goes in before each batch
# that holds acknowledged records (journal/entry.rb draws it):
#
#   1 entry: where the batch goes, its CRC, the clients' sequence numbers ── fsync of the journal
#   2 the batch is written to the log file
#   3 fsync of the log file                                     4 "ack" goes to the clients
#
# So whenever the process or the machine dies, the last entry shows whether its batch is whole in
# the file (its sequence numbers count) or not (it is cut off, none of it was acknowledged, and the
# clients send it again). All entries before the last one are of batches that are durable. The
# journal is compacted to one snapshot when it has grown, when the file is rotated or opened again,
# and at each start: a new file is written and renamed over the old one, so that there is always a
# whole one. It is there, empty, before anything is entered, for the holder of its lock is the log
# file's only writer (output/lock.rb). It decides nothing about the log file.

require "gyre/log/output/journal/entry"
require "gyre/log/output/access"
require "gyre/log/output/lock"
require "gyre/log/output/writing"

module Gyre
  module Log
    # The journal of one log file. Belongs to one task.
    class Journal
      # A client from which nothing has come for so long is forgotten.
      FORGET_AFTER_S = 30 * 24 * 3600
      # The longest unseen are forgotten beyond that.
      CLIENTS_LIMIT = 1_000_000
      # Compacted when it is larger than that and than four times its snapshot.
      COMPACT_BYTES = 1024 * 1024

      # @return [String]
      attr_reader :path
      # @return [Batch, nil] the last entry when it was read, if it is not yet decided whether it
      #   counts
      attr_reader :open_batch
      # @return [Integer] bytes in the file
      attr_reader :bytesize
      # @return [Integer] bytes at its end that were no whole entry when it was read
      attr_reader :torn_bytes

      # Locks and reads it.
      # @param path [String]
      # @param retries [Output::Retry] the log file's
      # @param lock [Output::Lock] the log file's
      # @raise [ArgumentError] when another process has it
      # @raise [SystemCallError]
      def initialize(path, retries, lock)
        @path = path
        @retries = retries
        @lock = lock
        @clients = {} # id => [seq, seen]
        @bytesize = @torn_bytes = @snapshot_bytes = 0
        @ready = false # for another entry at its end
        @io = open_locked
        read if @io
        @used = (@bytesize + @torn_bytes).positive?
      end

      # @return [Boolean] whether acknowledged records have ever come
      def used? = @used

      # @return [Hash{String=>Integer}] each client's last sequence number that is stored
      def stored = @clients.transform_values(&:first)

      # @param client_id [String]
      # @return [Integer] 0 for an unknown one
      def stored_by(client_id) = @clients[client_id]&.first || 0

      # Decides whether the batch of the last entry counts.
      # @param durable [Boolean]
      def settle(durable)
        batch, @open_batch = @open_batch, nil
        count(batch) if durable && batch
      end

      # Writes an entry and syncs: the batch may be written when this returns.
      # @param batch [Batch]
      # @yield before each try to write; may throw, {#compact} mends that
      def append(batch, &trying)
        compact(batch.time) if !@ready || @io.stat.nlink.zero? # it was deleted
        bytes = Entry.encode_batch(batch)
        @open_batch = batch
        Output::Writing.put(@io, bytes, @retries, &trying)
        @bytesize += bytes.bytesize
        sync(bytes)
      end

      # @return [Boolean] whether {#compact} is worth it
      def large? = @bytesize > COMPACT_BYTES && @bytesize > 4 * @snapshot_bytes

      # Puts a snapshot in its place. Only when no batch is open.
      # @param time [Integer] seconds since 1970
      def compact(time)
        raise Error, "#{@path}: a batch is still open" if @open_batch

        forget(time)
        renew
        @used = @ready = true
      end

      def close
        @io&.close
        @io = nil
        @ready = false
      end

      private

      # The lock counts only on the file that has the name: its former owner may have put another
      # one there meanwhile.
      # @return [IO, nil] nil where none may be made: then there is no other server's either
      def open_locked
        loop do
          io = Output::Access.private_file(@path, ::File::RDWR | ::File::APPEND)
          io.sync = true
          @lock.take(io)
          return io if named?(io)

          io.close
        rescue ArgumentError
          io.close
          raise
        end
      rescue Errno::EACCES, Errno::EPERM
        raise if ::File.exist?(@path)
      end

      def named?(io) = ::File.identical?(io, @path)

      def read
        bytes = @io.read
        @bytesize = Entry.each(bytes) { |entry| take(entry) }
        @torn_bytes = bytes.bytesize - @bytesize
      end

      # A batch counts when another entry follows, for that one was written after it was durable.
      def take(entry)
        settle(true)
        entry.is_a?(Batch) ? @open_batch = entry : @clients.merge!(entry.clients)
      end

      def count(batch)
        batch.clients.each { |id, seq| @clients[id] = [[seq, @clients[id]&.first.to_i].max, batch.time] }
      end

      def forget(time)
        @clients.delete_if { |_, (_, seen)| time - seen > FORGET_AFTER_S }
        return if @clients.size <= CLIENTS_LIMIT

        @clients = @clients.sort_by { |_, (_, seen)| -seen }.first(CLIENTS_LIMIT).to_h
        @retries.report("more than #{CLIENTS_LIMIT} acknowledged clients: those unseen for longest are forgotten")
      end

      # After a failed sync it is not known what is on the disk: the entry goes into a new file
      # then, and so does all before it.
      def sync(entry)
        doubtful = false
        @retries.until_success("sync #{@path}") do
          next renew(entry) if doubtful

          doubtful = true
          Output::Writing.in_thread { Output::Writing.sync(@io) }
        end
      end

      # A snapshot takes the place of all that was entered.
      # @param entry [String] of the open batch
      def renew(entry = "")
        snapshot = Entry.encode_snapshot(@clients)
        @retries.until_success("write #{@path}") { replace(snapshot + entry) }
        @snapshot_bytes = snapshot.bytesize
        @bytesize = @snapshot_bytes + entry.bytesize
      end

      def replace(bytes)
        fresh = Output::Access.new_private_file("#{@path}.new", ::File::WRONLY | ::File::APPEND)
        fresh.sync = true
        @lock.take(fresh)
        at = 0
        at += fresh.write_nonblock(bytes.byteslice(at, Output::Writing::PIECE_BYTES)) while at < bytes.bytesize
        Output::Writing.in_thread do
          Output::Writing.sync(fresh)
          ::File.rename(fresh.path, @path)
          Output::Writing.sync_folder(@path)
        end
        @io&.close
        @io = fresh
        fresh = nil
      ensure
        fresh&.close
      end
    end
  end
end
