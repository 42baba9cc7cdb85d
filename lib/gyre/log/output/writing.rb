# frozen_string_literal: true

# Writes bytes into a file, for Output::File, Journal and Spill: in pieces, with retries for short
# writes and a full disk, and short blocking of the loop. Also runs syncs in a thread.

require "gyre/log/disk"
require "gyre/log/output/retry"
require "gyre/offload"
require "gyre/task"

module Gyre
  module Log
    module Output
      module Writing
        # Bytes written at once in the loop's thread: a piece reaches the page cache in well under a
        # millisecond.
        PIECE_BYTES = 2 * 1024 * 1024
        # A busy loop makes pauses, in which the waiting thread may run: seconds between them, and
        # their number. Ruby then schedules the threads, as a long wait must not keep an idle loop
        # awake.
        PASS_S = 0.001
        PASSES = 100

        module_function

        # Writes everything, with retries. Yields before each attempt; the block may throw.
        def put(io, data, retries)
          at = 0
          while at < data.bytesize
            piece = piece(data, at)
            at += retries.until_success("write") do
              yield if block_given?
              io.write_nonblock(piece)
            end
            piece.clear unless piece.equal?(data) # frees the memory now, for the next piece
            sleep 0 if at < data.bytesize # lets other fibers run
          end
        end

        # Copies, as a slice would share the memory of `data` and prevent its reuse.
        def piece(data, at)
          return data if at.zero? && data.bytesize <= PIECE_BYTES

          data.unpack1("a#{[PIECE_BYTES, data.bytesize - at].min}", offset: at)
        end
        private_class_method :piece

        # Runs the block in a thread while the loop continues. A busy loop never sleeps, and Ruby
        # would switch threads after 100 ms only, before and after the call: a sync of 1 ms took 200
        # ms (now 12 ms). Returns the block's value; `abandon` works as in Offload.call.
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
      end
    end
  end
end
