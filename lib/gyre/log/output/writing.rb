# frozen_string_literal: true

# How bytes get into a file, for Output::File and Journal: in pieces, through short writes and a full disk, without holding up
# the loop for long. It never syncs the file itself.

require "gyre/log/output/trouble"

module Gyre
  module Log
    module Output
      # Functions without state.
      module Writing
        # write(2) to a file is made in the loop's thread: it goes to the page cache, a piece in well below a millisecond.
        PIECE_BYTES = 1024 * 1024

        module_function

        # Writes everything, however often that needs trying.
        # @param io [IO] a file opened for appending
        # @param data [String]
        # @param trouble [Trouble]
        def put(io, data, trouble)
          at = 0
          while at < data.bytesize
            piece = at.zero? && data.bytesize <= PIECE_BYTES ? data : data.byteslice(at, PIECE_BYTES)
            at += trouble.overcome("write") { io.write_nonblock(piece) }
            sleep 0 if at < data.bytesize # others' turn
          end
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
