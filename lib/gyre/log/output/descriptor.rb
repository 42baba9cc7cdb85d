# frozen_string_literal: true

# An output without a length: a standard stream, pipe, terminal or device. Made by Output.open.
# Other processes may share the descriptor, so it stays blocking: a thread of Gyre::Offload writes.
# Cannot sync: written bytes count as durable.

require "gyre/log/output/defaults"
require "gyre/log/output/writing"
require "io/wait"

module Gyre
  module Log
    module Output
      class Descriptor
        include Defaults

        # Bytes of one write call, so that slow readers show progress.
        PIECE_BYTES = 256 * 1024

        # Closes `io` with the output only if `owned`.
        def initialize(io, name:, owned: false, **options)
          super(name, **options)
          @io = io
          @io.sync = true
          @owned = owned
        end

        # Opens a named pipe also for reading, so that it waits for its first reader and survives
        # its last.
        def self.open(path, **options)
          flags = ::File.ftype(path) == "fifo" ? ::File::RDWR : ::File::WRONLY | ::File::APPEND | ::File::NOCTTY
          new(::File.open(path, flags | ::File::BINARY), name: path, owned: true, **options)
        end

        def write(data, _clients = nil)
          at = 0
          while at < data.bytesize
            piece = data.byteslice(at, PIECE_BYTES)
            at += @retries.until_success("write") { Writing.in_thread(abandon: true) { write_some(piece) } }
          end
        end

        def reopen; end

        def close
          @io.close if @owned
        end

        private

        # Runs in a thread. Another process may have made the descriptor non-blocking.
        def write_some(piece)
          @io.syswrite(piece)
        rescue Errno::EAGAIN
          @io.wait_writable
          retry
        end
      end
    end
  end
end
