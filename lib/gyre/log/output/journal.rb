# frozen_string_literal: true

# Keeps the sequence numbers of a log file's acknowledged clients in `<logfile>.journal`. Written by
# Output::FileOutput, read by Recovery. Each batch with acknowledged records has an entry (drawn in
# journal/entry.rb), which is written first:
#
#   1 entry: where the batch goes, its CRC, the clients' sequence numbers ── fsync of the journal
#   2 the batch is written to the log file
#   3 fsync of the log file                                     4 "ack" goes to the clients
#
# After a crash, the last entry shows whether its batch is complete. An incomplete batch is cut off,
# and its clients send it again. Batches of earlier entries are durable. A new file with a snapshot
# replaces a large journal, and any journal at rotation, reopening and start. Even an empty journal
# is needed for the lock of the log file's writer (output/lock.rb).

require "gyre/log/output/journal/entry"
require "gyre/log/output/access"
require "gyre/log/output/lock"
require "gyre/log/output/writing"
require "gyre/settings/units"

module Gyre
  module Log
    class Journal
      # Seconds after which an absent client is forgotten.
      FORGET_AFTER_S = 30 * 24 * 3600
      CLIENTS_LIMIT = 1_000_000
      # A journal is compacted if it has more bytes than this, and four times its snapshot's bytes.
      COMPACT_BYTES = 1024 * 1024
      # Stands among the clients until the next batch: all records up to their numbers are stored,
      # in this log file or another.
      CONCLUDED = "concluded"

      attr_reader :path
      attr_reader :open_batch # the last entry read, until it is decided whether it counts
      attr_reader :bytesize
      attr_reader :torn_bytes # incomplete bytes at the end

      # Locks and reads the journal. Raises ArgumentError if another process holds the lock.
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

      def used? = @used

      # Returns {id => [last stored sequence number, time last seen]}.
      def clients = @clients.except(CONCLUDED)

      def stored = clients.transform_values(&:first)

      def stored_by(client_id) = @clients[client_id]&.first || 0

      # Returns the clients of the last {#conclude}; nil if a batch has followed.
      def concluded = (clients if @clients.key?(CONCLUDED))

      # Takes the clients of all log files at an orderly end.
      def conclude(clients, time)
        take_over(clients)
        @clients[CONCLUDED] = [0, time]
        compact(time)
      end

      # A snapshot precedes the next entry.
      def take_over(clients)
        @clients.merge!(clients) { |_, *both| both.max }
        @ready = false
      end

      def settle(durable)
        batch, @open_batch = @open_batch, nil
        count(batch) if durable && batch
      end

      # Writes and syncs an entry. Yields before each attempt. The block may give up by `return`;
      # {#compact} then removes a partial entry.
      def append(batch, &trying)
        compact(batch.time) if !@ready || @io.stat.nlink.zero? # the file was deleted
        bytes = Entry.encode(batch)
        @open_batch = batch
        Output::Writing.put(@io, bytes, @retries, &trying)
        @bytesize += bytes.bytesize
        sync(bytes)
      end

      def large? = @bytesize > COMPACT_BYTES && @bytesize > 4 * @snapshot_bytes

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

      # Opens and locks the journal; does so again if another server has replaced the file. Returns
      # nil if no journal can be created.
      def open_locked
        loop do
          io = Output::Access.private_file(@path, File::RDWR | File::APPEND)
          io.sync = true
          @lock.take(io)
          return io if File.identical?(io, @path)

          io.close
        rescue ArgumentError
          io.close
          raise
        end
      rescue Errno::EACCES, Errno::EPERM
        raise if File.exist?(@path)
      end

      def read
        bytes = @io.read
        @bytesize = Entry.each(bytes) { |entry| take(entry) }
        rest = bytes.byteslice(@bytesize..)
        @torn_bytes = rest.bytesize
        keep(rest) unless rest.empty? || Entry.torn?(rest)
      end

      # Copies damaged bytes at the journal's end to a file of their own, and reports them.
      def keep(damaged)
        path = "#{@path}.damaged"
        Output::Access.new_private_file(path, File::WRONLY).tap { |file| file.write(damaged) }.close
        @retries.report("#{Units.count(damaged.bytesize, "byte")} of #{@path} are damaged; they are kept in #{path}")
        @torn_bytes = 0
      end

      # Takes a read entry. The previous entry's batch counts: it was durable before this entry.
      def take(entry)
        settle(true)
        entry.is_a?(Batch) ? @open_batch = entry : @clients.merge!(entry.clients)
      end

      def count(batch)
        @clients.delete(CONCLUDED)
        batch.clients.each { |id, seq| @clients[id] = [[seq, @clients[id]&.first.to_i].max, batch.time] }
      end

      def forget(time)
        @clients.delete_if { |_, (_, seen)| time - seen > FORGET_AFTER_S }
        return if @clients.size <= CLIENTS_LIMIT

        @clients = @clients.sort_by { |_, (_, seen)| -seen }.first(CLIENTS_LIMIT).to_h
        @retries.report("more than #{CLIENTS_LIMIT} acknowledged clients: those unseen for longest are forgotten")
      end

      # Syncs the journal. A failure leaves the disk's content unknown: the next call then replaces
      # all entries by a snapshot and the open batch's `entry`.
      def sync(entry)
        doubtful = false
        @retries.until_success("sync #{@path}") do
          next renew(entry) if doubtful

          doubtful = true
          Output::Writing.in_thread { Disk.sync(@io) }
        end
      end

      # Replaces all entries by a snapshot and the open batch's `entry`.
      def renew(entry = "")
        snapshot = Entry.encode_snapshot(@clients)
        @retries.until_success("write #{@path}") { replace(snapshot + entry) }
        @snapshot_bytes = snapshot.bytesize
        @bytesize = @snapshot_bytes + entry.bytesize
      end

      def replace(bytes)
        fresh = Output::Access.new_private_file("#{@path}.new", File::WRONLY | File::APPEND)
        fresh.sync = true
        @lock.take(fresh)
        at = 0
        at += fresh.write_nonblock(bytes.byteslice(at, Output::Writing::PIECE_BYTES)) while at < bytes.bytesize
        Output::Writing.in_thread do
          Disk.sync(fresh)
          File.rename(fresh.path, @path)
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
