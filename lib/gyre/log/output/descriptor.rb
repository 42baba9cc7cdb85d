# frozen_string_literal: true

# An output to something without a length: STDOUT, STDERR, a pipe, a terminal, a named pipe, a
# device. Made by Output.open, written to by the committer. The descriptor may belong to other
# processes as well, so it is never made non-blocking: a thread of Gyre::Offload writes, and a
# reader that stands still holds up that thread only. It cannot sync: written is durable.

require "gyre/log/output/defaults"
require "gyre/log/output/retry"
require "gyre/log/output/writing"
require "io/wait"

module Gyre
  module Log
    module Output
      # Lines to a descriptor.
      class Descriptor
        include Defaults

        # How much is written by one call: a reader that is slow then shows how far it is.
        PIECE_BYTES = 256 * 1024

        # @param io [IO] is not closed with the output unless `owned`
        # @param name [String] for messages
        # @param format [Symbol]
        # @param report [#call, nil]
        # @param owned [Boolean]
        def initialize(io, name:, format: :text, report: nil, owned: false, longest_pause_s: Retry::LONGEST_PAUSE_S)
          @io = io
          @io.sync = true
          @name = name
          @format = format
          @owned = owned
          @retries = Retry.new(name, report: report, longest_pause_s: longest_pause_s)
        end

        # Opens a named pipe or a device. A pipe is opened for reading too, so that it waits for its
        # first reader and survives its last one.
        # @param path [String]
        # @return [Descriptor]
        # @raise [SystemCallError]
        def self.open(path, **options)
          flags = ::File.ftype(path) == "fifo" ? ::File::RDWR : ::File::WRONLY | ::File::APPEND | ::File::NOCTTY
          new(::File.open(path, flags | ::File::BINARY), name: path, owned: true, **options)
        end

        # Writes everything; waits as long as that takes.
        # @param data [String]
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

        # In a thread. Another process may have made the descriptor non-blocking.
        # @return [Integer] bytes written, which may be fewer than given
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
