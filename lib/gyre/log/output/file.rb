# frozen_string_literal: true

# An output to a log file, with a journal beside it as soon as acknowledged records come (journal.rb
# describes a commit), and rotation by itself or by others (logrotate with HUP, or with
# copytruncate). Made by Output.open, used by one task of the committer at a time. It appends only,
# and never holds up the loop for a sync.
#
# A full disk, an error of the device: write and sync keep the bytes, report it once and try again
# (Retry).

require "gyre/log/output/checksum"
require "gyre/log/output/journal"
require "gyre/log/output/access"
require "gyre/log/output/defaults"
require "gyre/log/output/lock"
require "gyre/log/output/writing"
require "gyre/log/output/recovery"
require "gyre/log/output/rotation"

module Gyre
  module Log
    module Output
      # Lines to a file.
      class File
        include Defaults

        # How long another process may take to let go of the file, the one before a restart for
        # example.
        LOCK_PATIENCE_S = 10
        # How often the file may be renamed while it is opened (logrotate at that very moment).
        OPENINGS_LIMIT = 10
        NO_CLIENTS = {}.freeze
        IF_THE_MACHINE_FAILS = "a crash of the machine may lose lines since the last sync, no acknowledged ones"

        # A batch with acknowledged records that is written, not synced: the journal's entry, its
        # bytes, and whether they went elsewhere.
        Commit = Struct.new(:entry, :data, :astray)

        # @return [String]
        attr_reader :path

        # Opens the file, recovers what a crash has left, and locks it.
        # @param path [String]
        # @param format [Symbol]
        # @param rotation [Rotation, nil]
        # @param report [#call, nil] is given messages
        # @param clock [#call] gives the Time
        # @param access [Access]
        # @raise [SystemCallError] when it cannot be opened
        # @raise [ArgumentError] when another process writes to it
        def initialize(path, format: :text, rotation: nil, report: nil, clock: Time.method(:now), access: Access.new,
                       lock_patience_s: LOCK_PATIENCE_S, longest_pause_s: Retry::LONGEST_PAUSE_S)
          @path = path
          @format = format
          @rotation = rotation
          @clock = clock
          @access = access
          @retries = Retry.new(path, report: report, longest_pause_s: longest_pause_s)
          @lock = Lock.new(path, @retries, lock_patience_s)
          @retries.without_retrying { open_and_recover }
          @rotation&.clean
        rescue SystemCallError, ArgumentError
          [@io, @journal].compact.each(&:close)
          raise
        end

        # So much may be written and not synced: after a failed sync it is read and written again.
        UNSYNCED_BYTES_LIMIT = 256 * 1024 * 1024

        # Writes everything. With clients this is a commit: it is durable, and counts as stored,
        # when {#sync} has returned.
        # @param data [String] finished lines
        # @param clients [Hash{String=>Integer}]
        def write(data, clients = NO_CLIENTS)
          sync if @commit
          raise IOError, "#{@path}: a commit was interrupted: close it and open it again" if @journal.open_batch

          follow_changes
          sync if @end - @durable > UNSYNCED_BYTES_LIMIT
          @rotation&.pack_rest
          rotate if @rotation&.due?(@io.stat, data.bytesize, @clock.call)
          start_over(data.bytesize) until catch(:again) { clients.nil? || clients.empty? ? append(data) : commit(data, clients) }
        end

        # Returns when all that was written is durable, after a failed sync by writing it once more.
        def sync
          return unless @unsynced || @commit

          doubtful = false
          @retries.until_success("sync", meanwhile: IF_THE_MACHINE_FAILS) do
            write_again if doubtful
            doubtful = true
            Writing.in_thread { flush }
          end
          @unsynced = false
          @durable = @end
          finish_commit if @commit
        end

        # Syncs the file and opens it again, under its name. If that cannot be done, the open one is
        # kept.
        # @return [Boolean] whether it was done
        def reopen
          @reopen_soon = false
          sync
          @journal.compact(seconds) if @journal.used?
          follow_name
          same?
        end

        # The same in the middle of a write that finds no room: when the log was renamed or removed
        # to make some, the room is there only after it is closed; and a renamed file may be
        # compressed and removed from now on, with what goes there still. The batch then goes into
        # the new file as a whole. For another task than the one that writes.
        def reopen_soon
          @reopen_soon = true if @retries.trouble || !same?
        end

        # Syncs and closes. A commit that was interrupted is left to the next start's recovery.
        def close
          return if @io.closed?

          sync if @commit || !@journal.open_batch
          @journal.close
          @io.close
        end

        # @return [Hash{String=>Integer}]
        def stored = @journal.stored

        # @param client_id [String]
        # @return [Integer] the client's last sequence number that is stored; 0 for an unknown one
        def stored_by(client_id) = @journal.stored_by(client_id)

        # @return [String]
        def to_s = @path

        private

        # The journal first: without its lock no process may touch the file that its last entry
        # names, whatever that is called now.
        def open_and_recover
          tries ||= 0
          @journal ||= Journal.new("#{@path}.journal", @retries, @lock)
          @io = open_locked
          raise Errno::ENOENT, @path unless same?

          recover
        rescue Errno::ENOENT
          @io&.close
          (tries += 1) < OPENINGS_LIMIT ? retry : raise
        end

        # The lock is for servers that open the file under another name.
        def open_locked
          io, fresh = @access.open(@path, (@io.stat if @io && !@io.closed?))
          io.sync = true
          @lock.take(io)
          @unsynced = true if fresh
          @nameless = true # others may have made it
          @durable = @end = io.size
          io
        rescue ArgumentError
          io&.close
          raise
        end

        def recover
          return unless ::File.readable?(@path) || @journal.used?

          Recovery.run(@path, @journal, @retries)
          @journal.compact(seconds) if @journal.used?
          @durable = @end = @io.size
        end

        # What others did with the file since the last write.
        def follow_changes
          stat = @io.stat
          @kept = false
          if replaced?
            reopen
            @kept = replaced?
          elsif stat.nlink.zero?
            @retries.report("was deleted, and is created again")
            reopen
          elsif @journal.used? && stat.size < @end
            # Cut (copytruncate): the journal's last entry speaks of bytes that are gone, and would
            # be compared with others after a crash.
            @journal.compact(seconds)
          end
          @durable = stat.size if stat.size < @durable
        end

        # Another file has the name now (logrotate's create): what is written from here on must not
        # go to the old one, which is compressed and removed in a moment, whether HUP has come or
        # not. While nothing has the name, HUP is waited for.
        def replaced? = !same? && ::File.exist?(@path)

        def append(data)
          @start = @io.size
          put(data)
          @unsynced = true
          @end = @io.size
        end

        # What was renamed meanwhile may have been compressed already, as logrotate does it after
        # its HUP: the end of the batch would go with it.
        def put(data)
          Writing.put(@io, data, @retries) { reopen_instead }
          return if @kept || same?

          sleep 0 # a HUP that has come calls reopen_soon
          reopen_instead
          throw :again, false if replaced? || @io.stat.nlink.zero?
        end

        def reopen_instead
          throw :again, false if @reopen_soon
        end

        # A part of a batch is taken back, and the journal's entry for it, if there is one.
        # Compaction comes in any case: the next entry would make that one count.
        def start_over(bytes)
          @reopen_soon = false
          @retries.until_success("cut") { @io.truncate(@start) if @io.size.between?(@start, @start + bytes) }
          @journal.settle(false)
          follow_name
          @kept = replaced?
          @journal.compact(seconds) if @journal.used?
        end

        # Opens what has the file's name now.
        def follow_name
          replace(open_locked) unless same?
        rescue SystemCallError, ArgumentError => error
          @retries.report("cannot be opened again, the old file is kept: #{error.message}")
        end

        def commit(data, clients)
          stat = @io.stat
          entry = Journal::Batch.new(seconds, stat.dev, stat.ino, stat.size, data.bytesize, Checksum.of(data), clients)
          @start = entry.offset
          @journal.append(entry) { reopen_instead }
          put(data)
          @end = @io.size
          @commit = Commit.new(entry, data, @end != entry.offset + entry.length)
        end

        def flush
          Writing.sync(@io)
          Writing.sync_folder(@path) if @nameless
          @nameless = false
        end

        # All since the last good sync: a commit from memory, what stands before it as the page
        # cache has it. It is cut off first, for bytes in their old place may go to blocks that the
        # file system never adds to the file (ext4's unwritten extents). Interrupted, it leaves the
        # commit to recovery: there is none here meanwhile.
        def write_again
          commit, @commit = @commit, nil
          start = commit ? commit.entry.offset : @end
          if @io.size == @end
            before = Writing.read_through(@io, @path, @durable, start)
            @retries.until_success("cut") { @io.truncate(before ? @durable : start) }
            Writing.put(@io, before || ("\n" * (-start % Writing::BLOCK_BYTES)), @retries)
          end
          Writing.put(@io, commit.data, @retries) if commit
          @end = @io.size
          commit.astray = @end != start + commit.entry.length if commit
          @commit = commit
          Writing.refresh_name(@path) if @nameless
        end

        # Where others changed the file meanwhile, the bytes are not at the entry's offset: only a
        # snapshot is right then.
        def finish_commit
          commit, @commit = @commit, nil
          @journal.settle(true)
          @journal.compact(seconds) if commit.astray || @journal.large?
        end

        # What fails here holds up no line: they go on into the old file.
        def rotate
          sync
          @journal.compact(seconds) if @journal.used?
          @rotation.move(@clock.call)
          replace(open_locked)
          @rotation.finish
        rescue SystemCallError, ArgumentError => error
          @rotation.postpone(error)
        end

        def same?
          there = ::File.stat(@path)
          here = @io.stat
          there.dev == here.dev && there.ino == here.ino
        rescue Errno::ENOENT
          false
        end

        def replace(io)
          @io.close
          @io = io
        end

        def seconds = @clock.call.to_i
      end
    end
  end
end
