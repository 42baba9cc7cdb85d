# frozen_string_literal: true

# Remembers a log file's acknowledged clients: `<logfile>.journal`, beside it. Written
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
require "gyre/settings/units"

module Gyre
  module Log
    # Belongs to one task.
    class Journal
      # Clients unseen for longer are forgotten.
      FORGET_AFTER_S = 30 * 24 * 3600
      # Beyond it, clients unseen for longest are forgotten.
      CLIENTS_LIMIT = 1_000_000
      # Size from which a journal is compacted if its snapshot is less than a quarter.
      COMPACT_BYTES = 1024 * 1024

      attr_reader :path
      attr_reader :open_batch # the last entry read, until it is decided whether it counts
      attr_reader :bytesize
      attr_reader :torn_bytes # incomplete bytes at the end

      # Locks and reads it. Raises ArgumentError if another process has it.
      def initialize(path, retries, lock)
        @path = path
        @retries = retries
        @lock = lock
        @clients = {} # id => [seq, seen]
        @bytesize = @torn_bytes = @snapshot_bytes = 0
        @ready = false # another entry may follow at the end
        @io = open_locked
        read if @io
        @used = @io ? @io.size.positive? : false
      end

      # True once acknowledged records have come.
      def used? = @used

      def stored = @clients.transform_values(&:first)

      # 0 if unknown.
      def stored_by(client_id) = @clients[client_id]&.first || 0

      # Decides whether the last entry's batch counts.
      def settle(durable)
        batch, @open_batch = @open_batch, nil
        count(batch) if durable && batch
      end

      # Writes and syncs an entry, after which the batch may be written. Yields before each try; the
      # block may throw, and {#compact} repairs that.
      def append(batch, &trying)
        compact(batch.time) if !@ready || @io.stat.nlink.zero? # the file was deleted
        bytes = Entry.encode_batch(batch)
        @open_batch = batch
        Output::Writing.put(@io, bytes, @retries, &trying)
        @bytesize += bytes.bytesize
        sync(bytes)
      end

      # True if {#compact} is worth it.
      def large? = @bytesize > COMPACT_BYTES && @bytesize > 4 * @snapshot_bytes

      # Replaces the entries by a snapshot. Only without an open batch.
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

      # Locks the file that has the name, as a former server may have replaced it. Returns nil if no
      # journal may be made; then no other server has one either.
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
        rest = bytes.byteslice(@bytesize..)
        @torn_bytes = rest.bytesize
        keep(rest) unless rest.empty? || Entry.torn?(rest)
      end

      # Counts the former batch, which was durable before another entry followed.
      def keep(damaged)
        path = "#{@path}.damaged"
        Output::Access.new_private_file(path, ::File::WRONLY).tap { |file| file.write(damaged) }.close
        @retries.report("#{Units.count(damaged.bytesize, "byte")} of #{@path} are damaged; they are kept in #{path}")
        @torn_bytes = 0
      end

      # Writes the entry and all earlier ones into a new file after a failed sync, which leaves the
      # disk's content unknown.
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

      # Replaces all entries by a snapshot and `entry`, the open batch's.
      def sync(entry)
        doubtful = false
        @retries.until_success("sync #{@path}") do
          next renew(entry) if doubtful

          doubtful = true
          Output::Writing.in_thread { Disk.sync(@io) }
        end
      end

      # A snapshot takes the place of all that was entered. `entry` is the open batch's.
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
          Disk.sync(fresh)
          ::File.rename(fresh.path, @path)
          Disk.sync_folder(@path)
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
