# frozen_string_literal: true

# An output to a standard stream, pipe, terminal or device. Made by Output.open. The descriptor
# stays blocking, because other processes may share it; a thread of Gyre::Offload writes. Never
# syncs: written bytes count as durable.

require "gyre/log/output/defaults"
require "gyre/log/output/writing"
require "io/wait"

module Gyre
  module Log
    module Output
      class Descriptor
        include Defaults

        # Maximum bytes of a write call, so that the end of each shows a slow reader's progress.
        PIECE_BYTES = 256 * 1024

        # {#close} closes `io` only if `owned` is true.
        def initialize(io, name:, owned: false, **options)
          super(name, **options)
          @io = io
          @io.sync = true
          @owned = owned
        end

        # Opens a named pipe for reading, too, so that a write waits instead of raising EPIPE.
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
