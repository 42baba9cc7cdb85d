# frozen_string_literal: true

# Makes files durable. Used by the outputs, journals and disk queues
# of the log. Functions block: they are for a thread.

module Gyre
  module Log
    # Functions without state.
    module Disk
      # No file system has larger blocks.
      BLOCK_BYTES = 65_536
      # The errors of devices, pipes and file systems that have no fsync.
      UNSYNCABLE = [Errno::EINVAL, Errno::ENOTSUP, Errno::ENOSYS].freeze
      # Ends a name for the moment between two renames.
      AWAY = ".renamed"

      module_function

      # Makes what was written durable. For a thread, it blocks. An error is reported once: the
      # kernel takes the pages that it could not write for clean, and the next call succeeds. After
      # an error only rewritten bytes count. IO#fdatasync must not be used:
      # after an error Ruby tries fsync(2), and returns that one's result.
      def sync(io)
        io.fsync
      rescue *UNSYNCABLE
        nil
      end

      # Makes a file's name durable: a new one's, a renamed one's. For a thread, it blocks.
      def sync_folder(path) = File.open(File.dirname(path)) { |folder| sync(folder) }

      # Reads from a file that is open for writing only, whatever its name is by now.
      def read_through(io, path, from, upto)
        return "" if from >= upto

        ["/proc/self/fd/#{io.fileno}", path].each do |name|
          File.open(name, "rb") { |file| return file.pread(upto - from, from) if File.identical?(file, io) }
        rescue SystemCallError, EOFError
          next
        end
        nil
      end

      # Has the pages of a file read from the disk again, as far as they have been written to it.
      # For a thread, it blocks.
      def forget_pages(path)
        File.open(path, "r+b") do |io|
          sync(io)
          io.advise(:dontneed)
        end
      end

      # Changes a folder's entry and changes it back, so that the next sync of the folder writes
      # it.
      def refresh_name(path)
        File.rename(path, path + AWAY) if File.exist?(path)
        restore_name(path)
      end

      # Completes a {refresh_name} that a kill has interrupted.
      def restore_name(path)
        File.rename(path + AWAY, path) if File.exist?(path + AWAY) && !File.exist?(path)
      end
    end
  end
end
