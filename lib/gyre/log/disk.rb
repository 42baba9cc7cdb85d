# frozen_string_literal: true

# Makes files of the log durable. All functions block; do not call them in the loop's thread.

module Gyre
  module Log
    module Disk
      # Maximum bytes of a block in a file system.
      BLOCK_BYTES = 65_536
      # Errors of fsync(2) for devices, pipes and file systems that do not support it.
      UNSYNCABLE = [Errno::EINVAL, Errno::ENOTSUP, Errno::ENOSYS].freeze
      # Suffix of a file's name between the two renames of {refresh_name}.
      AWAY = ".renamed"

      module_function

      # Makes written bytes durable. The kernel reports a write error only once and marks the pages
      # as clean, so the next call succeeds. After an error, bytes must therefore be written again.
      # IO#fdatasync would hide errors: after an error, Ruby calls fsync(2) and returns its result.
      def sync(io)
        io.fsync
      rescue *UNSYNCABLE
        nil
      end

      # Makes a file's new name durable.
      def sync_folder(path) = File.open(File.dirname(path)) { |folder| sync(folder) }

      # Reads from a file that is open only for writing, even if the file was renamed.
      def read_through(io, path, from, upto)
        return "" if from >= upto

        ["/proc/self/fd/#{io.fileno}", path].each do |name|
          File.open(name, "rb") { |file| return file.pread(upto - from, from) if File.identical?(file, io) }
        rescue SystemCallError, EOFError
          next
        end
        nil
      end

      # Syncs a file and drops its pages from the page cache, so that the next read uses the disk.
      def forget_pages(path)
        File.open(path, "r+b") do |io|
          sync(io)
          io.advise(:dontneed)
        end
      end

      # Renames a file away and back, so that the next sync of the folder writes the name again.
      def refresh_name(path)
        File.rename(path, path + AWAY) if File.exist?(path)
        restore_name(path)
      end

      # Completes a {refresh_name} that a kill has interrupted.
      def restore_name(path) = (File.rename(path + AWAY, path) if File.exist?(path + AWAY) && !File.exist?(path))
    end
  end
end
