# frozen_string_literal: true

# Writes to a log file, with a journal for acknowledged records (journal.rb). The file is rotated by
# this class or by logrotate (HUP, copytruncate). Made by Output.open, used by one task at a time.
# Only appends; never blocks the loop for a sync.
#
#             ┌── write ──► written ──┐
#   durable ──┤                       ├── sync ──► durable          a failed sync writes it once more
#             └── entered ─► commit ──┘            (the commit's entry counts)
#                   │  in the journal
#                   └──► torn: interrupted while it was written; only the next start's recovery goes on
#
#   a file renamed or removed meanwhile: the batch is removed from it, and goes into the new file as a whole
#
# On a full disk or device error, write and sync keep the bytes, report once and retry (Retry).

require "gyre/log/ingest"
require "gyre/log/output/defaults"
require "gyre/log/output/file_output/open_file"
require "gyre/log/output/recovery"
require "gyre/log/output/rotation"

module Gyre
  module Log
    module Output
      class FileOutput
        include Defaults

        NAMES = %w[file].freeze
        SCHEMES = [nil].freeze
        EXAMPLES = "a path"
        NO_SPILL = "spill is for sockets, pipes and Redis; a log file is on a disk already: choose block or drop"

        # A mode in octal. YAML reads 0640 as 416 and 640 as 640. Both mean 0640 here: a usable mode
        # is an Integer below 512, and octal digits that are read as decimal make at least 600.
        mode = Gyre::Settings::Type.new("MODE", "a file mode in octal that lets the server write, such as 0640") do |value|
          next value if value.is_a?(Integer) && value.between?(0o600, 0o777)

          value.to_s.to_i(8) if value.to_s.match?(/\A0?[67][0-7]{2}\z/)
        end
        owner = Gyre::Settings::Type.new("OWNER", "user, user:group or :group") do |value|
          Access.owner(value.to_s) && value.to_s unless value.is_a?(Enumerable)
        end
        ROWS = [
          Gyre::Settings.row(:rotate, Rotation::Policy::SETTINGS, "new files by size or time"),
          Gyre::Settings.row(:mode, mode, "of the file, like 0640; without it a new file has the mode of the one before"),
          Gyre::Settings.row(:owner, owner, "of the file: user, user:group or :group")
        ].freeze

        # Resolves a symlink, so that rotation renames the target and keeps the link.
        def self.from(path, settings, report: nil, **options)
          Access.place(path)
          path = File.realdirpath(path) if settings[:rotate] && File.symlink?(path)
          access = Access.new(mode: settings[:mode], owner: settings[:owner])
          new(path, access: access, rotation: Rotation.from(settings[:rotate], path, report: report), report: report, **options)
        end

        # Maximum seconds to wait until another process releases the file.
        LOCK_PATIENCE_S = 10
        # Maximum attempts to open the file while other programs rename it.
        OPENINGS_LIMIT = 10
        # Maximum unsynced bytes. After a failed sync, these bytes are read and written again.
        UNSYNCED_BYTES_LIMIT = 256 * 1024 * 1024

        # An unsynced batch with its journal entry. `astray` means that it is not at the entry's
        # offset, `torn` that it is incomplete.
        Commit = Struct.new(:entry, :data, :astray, :torn)

        # Temporary errors: the file is opened later. Until then, the clients' numbers are unknown.
        PASSING = [Errno::ENOSPC, Errno::EDQUOT, Errno::EFBIG, Errno::EIO, Errno::EROFS, Errno::ESTALE, Errno::ETIMEDOUT].freeze

        attr_reader :path

        # Opens, recovers and locks the file. Raises ArgumentError if another process writes to the
        # file, SystemCallError for a permanent error.
        def initialize(path, rotation: nil, clock: Time.method(:now), access: Access.new, lock_patience_s: LOCK_PATIENCE_S, **options)
          super(path, **options)
          @path, @rotation, @clock, @access = path, rotation, clock, access
          @lock = Lock.new(path, @retries, lock_patience_s)
          open_and_recover
        rescue *PASSING => error
          @retries.failed("open it", error)
        end

        def prepare = (@retries.until_success("open it", SystemCallError, ArgumentError) { open_and_recover } unless @open)

        # Writes a batch. With clients it is a commit, whose records count as stored after {#sync}.
        def write(data, clients = nil)
          prepare
          sync if @commit && !@commit.torn
          raise IOError, "#{@path}: a commit was interrupted: close it and open it again" if @journal.open_batch

          follow_changes
          sync if @file.unsynced_bytes > UNSYNCED_BYTES_LIMIT
          @rotation&.pack_rest
          rotate if @rotation&.due?(@file.stat, data.bytesize, @clock.call)
          start_over(data.bytesize) until deliver(data, clients)
        end

        def sync
          return if !@open || (@commit ? @commit.torn : !@file.unsynced?)

          @file.sync(@commit)
          return unless @commit

          commit, @commit = @commit, nil
          @journal.settle(true)
          # The entry's offset is wrong if another program changed the file.
          @journal.compact(seconds) if commit.astray || @journal.large?
        end

        # Syncs the file and opens its path again. On failure, keeps the file and returns false.
        def reopen
          return unless @open

          @reopen_soon = false
          sync
          @journal.compact(seconds) if @journal.used?
          follow_name
          @file.same?
        end

        # Makes a write that lacks disk space reopen the path and move its batch to the new file,
        # because a removed file frees its space only when it is closed. Called by other tasks.
        def reopen_soon = (@reopen_soon = true if @open && (@retries.trouble || !@file.same?))

        # Syncs and closes. Leaves an interrupted commit to the next start's recovery.
        def close
          return if @file&.closed?

          sync unless @open && @journal.open_batch && (@commit.nil? || @commit.torn)
          close_both
        end

        def stored = @journal.stored

        def clients = @open ? @journal.clients : {}

        def concluded = (@journal.concluded if @open)

        # Never waits for room on the disk: without it, clients may repeat stored records.
        def conclude(clients)
          @retries.without_retrying { @journal.conclude(clients, seconds) } if @open && !@journal.open_batch
        rescue SystemCallError
          nil
        end

        def take_over(clients) = (@journal.take_over(clients) if @open)

        # Raises Unavailable until the file is open and recovered.
        def stored_by(client_id)
          raise Unavailable, "#{self}: #{trouble}" unless @open

          @journal.stored_by(client_id)
        end

        private

        # Sets @open last, because other tasks check it meanwhile.
        def open_and_recover
          @retries.without_retrying { open_both }
          @rotation&.clean
          @open = true
        rescue SystemCallError, ArgumentError
          close_both
          @file = @journal = nil
          raise
        end

        def close_both = [@journal, @file].each { |each| each&.close }

        # Locks the journal first. Only the owner of this lock may change the file that the
        # journal's last entry describes.
        def open_both
          tries ||= 0
          @journal ||= Journal.new("#{@path}.journal", @retries, @lock)
          Disk.restore_name(@path)
          @file = open_locked
          raise Errno::ENOENT, @path unless @file.same?

          recover
        rescue Errno::ENOENT
          @file&.close
          (tries += 1) < OPENINGS_LIMIT ? retry : raise
        end

        # Opens the file, and locks it against servers that open it under another name.
        def open_locked
          io, fresh = @access.open(@path, (@file.stat if @file && !@file.closed?))
          io.sync = true
          @lock.take(io)
          OpenFile.new(io, @path, @retries, fresh)
        rescue ArgumentError
          io&.close
          raise
        end

        def recover
          return unless File.readable?(@path) || @journal.used?

          Recovery.run(@path, @journal, @retries)
          @journal.compact(seconds) if @journal.used?
          @file.recount
        end

        # Handles changes that other programs have made since the last write.
        def follow_changes
          @file.kept = false
          if @file.replaced?
            reopen
            @file.kept = @file.replaced?
          elsif @file.deleted?
            @retries.report("was deleted, and is created again")
            reopen
          end
          # Compacts the journal, because its last entry may describe removed bytes.
          @journal.compact(seconds) if @file.cut_by_others && @journal.used?
        end

        # Writes a batch. Returns true if the file at the path has the whole batch.
        def deliver(data, clients)
          @file.begin
          clients.nil? || clients.empty? ? append(data) : commit(data, clients)
        end

        def append(data)
          return false unless put(data)

          @file.settle
          true
        end

        def commit(data, clients)
          stat = @file.stat
          entry = Journal::Batch.new(seconds, stat.dev, stat.ino, stat.size, data.bytesize, Ingest.crc32(data), clients)
          @journal.append(entry) { return false if @reopen_soon }
          return false unless append(data)

          @commit = Commit.new(entry, data, @file.end != entry.offset + entry.length)
          true
        end

        # Appends a batch. Returns false if it must go into a new file, because logrotate may have
        # compressed the renamed one already.
        def put(data)
          @file.append(data) { return false if @reopen_soon }
          return true if @file.kept || @file.same?

          sleep 0 # lets a HUP call reopen_soon
          !@reopen_soon && !@file.replaced? && !@file.deleted?
        end

        # Removes a partly written batch. Compacts the journal, because the next entry would confirm
        # the batch's entry.
        def start_over(bytes)
          @reopen_soon = false
          @file.take_back(bytes)
          @journal.settle(false)
          follow_name
          @file.kept = @file.replaced?
          @journal.compact(seconds) if @journal.used?
        end

        def follow_name
          replace(open_locked) unless @file.same?
        rescue SystemCallError, ArgumentError => error
          @retries.report("cannot be opened again, the old file is kept: #{error.message}")
        end

        # Rotates the file. After a failure, continues with the old file.
        def rotate
          sync
          @journal.compact(seconds) if @journal.used?
          @rotation.move
          replace(open_locked)
          @rotation.finish
        rescue SystemCallError, ArgumentError => error
          @rotation.postpone(error)
        end

        def replace(file)
          @file.close
          @file = file
        end

        def seconds = @clock.call.to_i
      end
    end
  end
end
