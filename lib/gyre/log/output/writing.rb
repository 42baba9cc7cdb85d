# frozen_string_literal: true

# How bytes get into a file, for Output::File and Journal: in pieces, through short writes and a
# full disk, without holding up the loop for long; and how a thread waits for the disk. It decides
# nothing.

require "gyre/log/output/retry"
require "gyre/offload"
require "gyre/task"

module Gyre
  module Log
    module Output
      # Functions without state.
      module Writing
        # write(2) to a file is made in the loop's thread: it goes to the page cache, a piece in
        # well below a millisecond.
        PIECE_BYTES = 2 * 1024 * 1024
        # How often a busy loop lets the thread in that waits for the disk, and how many times: then
        # Ruby does it by itself, and a long wait (for a pipe without a reader) shall not keep an
        # idle loop awake.
        PASS_S = 0.001
        PASSES = 100
        # No file system has larger blocks.
        BLOCK_BYTES = 65_536
        # The errors of devices, pipes and file systems that have no fsync.
        UNSYNCABLE = [Errno::EINVAL, Errno::ENOTSUP, Errno::ENOSYS].freeze

        module_function

        # Writes everything, however often that needs trying.
        # @param io [IO] a file opened for appending
        # @param data [String]
        # @param retries [Retry]
        # @yield before each try; may throw
        def put(io, data, retries)
          at = 0
          while at < data.bytesize
            piece = piece(data, at)
            at += retries.until_success("write") do
              yield if block_given?
              io.write_nonblock(piece)
            end
            piece.clear unless piece.equal?(data) # at once and not by the collector: the next one gets the same memory
            sleep 0 if at < data.bytesize # others' turn
          end
        end

        # Never a slice: it would share data's memory, which could not be used again then.
        def piece(data, at)
          return data if at.zero? && data.bytesize <= PIECE_BYTES

          data.unpack1("a#{[PIECE_BYTES, data.bytesize - at].min}", offset: at)
        end
        private_class_method :piece

        # Runs the block in a thread while the loop goes on. A loop with much to do never sleeps,
        # and Ruby would give the thread its turn after 100 ms only, at its beginning and again at
        # its end: a sync of 1 ms took 200 (12 this way).
        # @param abandon [Boolean] as for Offload.call
        # @return the block's value
        def in_thread(abandon: false, &work)
          task = Task.current?
          passing = task&.async("log sync", transient: true) do
            PASSES.times do
              sleep PASS_S
              Thread.pass
            end
          end
          Offload.call(abandon: abandon, &work)
        ensure
          passing&.stop
        end

        # Makes what was written durable. For a thread, it blocks. An error is reported once: the
        # kernel takes the pages that it could not write for clean, and the next call succeeds. So
        # after an error nothing counts that was not written again. IO#fdatasync must not be used:
        # after an error Ruby tries fsync(2), and returns that one's result.
        # @param io [IO]
        # @raise [SystemCallError]
        def sync(io)
          io.fsync
        rescue *UNSYNCABLE
          nil
        end

        # Makes a file's name durable: a new one's, a renamed one's. For a thread, it blocks.
        # @param path [String]
        # @raise [SystemCallError]
        def sync_folder(path) = ::File.open(::File.dirname(path)) { |folder| sync(folder) }

        # Reads from a file that is open for writing only, whatever its name is by now.
        # @param io [IO]
        # @param path [String]
        # @param from [Integer]
        # @param upto [Integer] the offset behind the last byte
        # @return [String, nil] nil: it cannot be read
        def read_through(io, path, from, upto)
          return "" if from >= upto

          ["/proc/self/fd/#{io.fileno}", path].each do |name|
            ::File.open(name, "rb") { |file| return file.pread(upto - from, from) if ::File.identical?(file, io) }
          rescue SystemCallError, EOFError
            next
          end
          nil
        end

        # Has the pages of a file read from the disk again, as far as they have been written to it.
        # For a thread, it blocks.
        # @param path [String]
        # @raise [SystemCallError]
        def forget_pages(path)
          ::File.open(path, "r+b") do |io|
            sync(io)
            io.advise(:dontneed)
          end
        end

        # Changes a folder's entry and changes it back, so that the next sync of the folder writes
        # it.
        # @param path [String]
        # @raise [SystemCallError]
        def refresh_name(path)
          away = "#{path}.#{Process.pid}.renamed"
          ::File.rename(path, away) if ::File.exist?(path)
          ::File.rename(away, path) if ::File.exist?(away)
        end
      end
    end
  end
end
