# frozen_string_literal: true

# The open log file of an Output::FileOutput, which stays open after a rename. Counts durable bytes.

require "gyre/log/output/writing"

module Gyre
  module Log
    module Output
      class FileOutput
        class OpenFile
          IF_THE_MACHINE_FAILS = "a crash of the machine may lose lines since the last sync, no acknowledged ones"

          # Offset after the last byte that this process has written.
          attr_reader :end
          # True if writes continue although another file has the path.
          attr_accessor :kept

          def initialize(io, path, retries, fresh)
            @io, @path, @retries = io, path, retries
            @unsynced = fresh
            @nameless = true # until the name is durable; others may have made the file
            recount
          end

          def recount = @durable = @end = @io.size

          def stat = @io.stat

          # True if the path still leads to this file.
          def same?
            there = File.stat(@path)
            here = @io.stat
            there.dev == here.dev && there.ino == here.ino
          rescue Errno::ENOENT
            false
          end

          # True if another file has the path (logrotate's create); the open file will soon be
          # removed. If no file has the path, the open file stays in use until HUP.
          def replaced? = !same? && File.exist?(@path)

          def deleted? = @io.stat.nlink.zero?

          # Returns true if another program has truncated the file (copytruncate).
          def cut_by_others
            size = @io.size
            shorter = size < @end
            @durable = size if size < @durable
            shorter
          end

          def unsynced? = @unsynced

          def unsynced_bytes = @end - @durable

          # Marks the beginning of a batch, for {#take_back}.
          def begin = @start = @io.size

          # Writes all bytes. Yields before each attempt; the block may give up by `return`.
          def append(data, &trying) = Writing.put(@io, data, @retries, &trying)

          def settle
            @unsynced = true
            @end = @io.size
          end

          def take_back(bytes) = @retries.until_success("cut") { @io.truncate(@start) if @io.size.between?(@start, @start + bytes) }

          # Makes all bytes durable. After an error, writes the commit again from memory, and
          # earlier bytes from the page cache.
          def sync(commit)
            doubtful = false
            @retries.until_success("sync", meanwhile: IF_THE_MACHINE_FAILS) do
              write_again(commit) if doubtful
              doubtful = true
              Writing.in_thread { flush }
            end
            @unsynced = false
            @durable = @end
          end

          def close = @io.close

          def closed? = @io.closed?

          private

          def flush
            Disk.sync(@io)
            Disk.sync_folder(@path) if @nameless
            @nameless = false
          end

          # Truncates first: ext4's unwritten extents may lose bytes that are rewritten in place.
          def write_again(commit)
            commit&.torn = true
            start = commit ? commit.entry.offset : @end
            if @io.size == @end
              before = Disk.read_through(@io, @path, @durable, start)
              @retries.until_success("cut") { @io.truncate(before ? @durable : start) }
              Writing.put(@io, before || ("\n" * (-start % Disk::BLOCK_BYTES)), @retries)
            end
            Writing.put(@io, commit.data, @retries) if commit
            @end = @io.size
            commit.astray, commit.torn = @end != start + commit.entry.length, false if commit
            Disk.refresh_name(@path) if @nameless
          end
        end
      end
    end
  end
end
