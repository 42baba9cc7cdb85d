# frozen_string_literal: true

# How bytes get into a file, for Output::File and Journal: in pieces, through short writes and a full disk, without holding up
# the loop for long; and how a thread waits for the disk. It decides nothing.

require "gyre/log/output/trouble"
require "gyre/offload"
require "gyre/task"

module Gyre
  module Log
    module Output
      # Functions without state.
      module Writing
        # write(2) to a file is made in the loop's thread: it goes to the page cache, a piece in well below a millisecond.
        PIECE_BYTES = 2 * 1024 * 1024
        # How often a busy loop lets the thread in that waits for the disk, and how many times: then Ruby does it by itself, and
        # whoever waits for long (a pipe that nobody reads) shall not keep an idle loop awake.
        PASS_S = 0.001
        PASSES = 100

        module_function

        # Writes everything, however often that needs trying.
        # @param io [IO] a file opened for appending
        # @param data [String]
        # @param trouble [Trouble]
        # @yield before each try; may throw
        def put(io, data, trouble)
          at = 0
          while at < data.bytesize
            piece = piece(data, at)
            at += trouble.overcome("write") do
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

        # Runs the block in a thread while the loop goes on. A loop with much to do never sleeps, and Ruby would give the thread
        # its turn after 100 ms only, at its beginning and again at its end: a sync of 1 ms took 200 (12 this way).
        # @param abandon [Boolean] as for Offload.call
        # @return the block's value
        def beside(abandon: false, &work)
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

        # Makes a file's name durable: a new one's, a renamed one's. For a thread, it blocks.
        # @param path [String]
        def sync_folder(path)
          ::File.open(::File.dirname(path), &:fsync)
        end
      end
    end
  end
end
