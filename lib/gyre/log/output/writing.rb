# frozen_string_literal: true

# Writes bytes to a file for FileOutput, Journal and Spill. Each piece blocks the loop briefly.
# Continues after short writes, and retries on a full disk. Runs syncs in a thread.

require "gyre/log/disk"
require "gyre/net/retry"
require "gyre/offload"
require "gyre/task"

module Gyre
  module Log
    module Output
      module Writing
        # Maximum bytes of a piece; the page cache takes them in far less than a millisecond.
        PIECE_BYTES = 2 * 1024 * 1024
        # During a sync, a busy loop pauses every PASS_S seconds, so that the syncing thread can
        # run. It pauses at most PASSES times, so that a long sync does not keep an idle loop awake.
        PASS_S = 0.001
        PASSES = 100

        module_function

        # Writes all bytes. Yields before each attempt; the block may give up by `return`.
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

        # Copies the bytes, because a slice would share the memory of `data` and prevent its reuse.
        def piece(data, at)
          return data if at.zero? && data.bytesize <= PIECE_BYTES

          data.unpack1("a#{[PIECE_BYTES, data.bytesize - at].min}", offset: at)
        end

        # Runs the block in a thread, for which a busy loop pauses. Otherwise Ruby interrupts a busy
        # loop only after 100 ms: a sync of 1 ms took 200 ms, and takes 12 ms with the pauses.
        # `abandon` is Offload.call's.
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
