# frozen_string_literal: true

# Makes files of the log durable. All functions block and must run in a thread.

module Gyre
  module Log
    module Disk
      # Largest block of any file system.
      BLOCK_BYTES = 65_536
      # Errors of devices, pipes and file systems without fsync.
      UNSYNCABLE = [Errno::EINVAL, Errno::ENOTSUP, Errno::ENOSYS].freeze
      # Suffix of a file's name between the two renames of {refresh_name}.
      AWAY = ".renamed"

      module_function

      # Makes written bytes durable. The kernel reports a write error once, marks the pages as
      # clean, and the next call succeeds: after an error, only bytes written again are safe.
      # IO#fdatasync hides errors: Ruby then tries fsync(2) and returns its result.
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

      # Drops a file's written pages from the page cache, so that the next read uses the disk.
      def forget_pages(path)
        File.open(path, "r+b") do |io|
          sync(io)
          io.advise(:dontneed)
        end
      end

      # Renames a file twice, so that the next sync of its folder writes its entry.
      def refresh_name(path)
        File.rename(path, path + AWAY) if File.exist?(path)
        restore_name(path)
      end

      # Completes a {refresh_name} interrupted by a kill.
      def restore_name(path)
        File.rename(path + AWAY, path) if File.exist?(path + AWAY) && !File.exist?(path)
      end
    end
  end
end
