# frozen_string_literal: true

# An output to a standard stream, pipe, terminal or device. Made by Output.open. The descriptor
# stays blocking, because other processes may share it; a thread of Gyre::Offload writes. Never
# syncs: written bytes count as durable.

require "gyre/log/output/access"
require "gyre/log/output/defaults"
require "gyre/log/output/writing"
require "io/wait"

module Gyre
  module Log
    module Output
      class StreamOutput
        include Defaults

        NAMES = %w[stdout stderr].freeze
        SCHEMES = [].freeze
        EXAMPLES = "STDOUT or STDERR"
        # Names of the standard streams, also as images of containers have them.
        STANDARD = { "STDOUT" => %w[- stdout /dev/stdout /dev/fd/1 /proc/self/fd/1], "STDERR" => %w[stderr /dev/stderr /dev/fd/2 /proc/self/fd/2] }
                   .flat_map { |name, words| words.map { |word| [word, name] } }.to_h.freeze
        # Maximum bytes of a write call, so that the end of each shows a slow reader's progress.
        PIECE_BYTES = 256 * 1024

        class << self
          # Returns the name of a standard stream; nil for other targets.
          def standard(target) = STANDARD[target.downcase]

          def from(target, settings, **options)
            name = NAMES.include?(settings[:type]) ? settings[:type].upcase : standard(target)
            return open(target, **options) unless name

            # Disables autoclose, so that garbage collection does not close the program's stream.
            new(IO.for_fd(name == "STDOUT" ? $stdout.fileno : $stderr.fileno, "wb", autoclose: false), name: name, **options)
          end

          # Opens a named pipe for reading, too, so that a write waits instead of raising EPIPE.
          def open(path, **options)
            Access.place(path)
            flags = File.ftype(path) == "fifo" ? File::RDWR : File::WRONLY | File::APPEND | File::NOCTTY
            new(File.open(path, flags | File::BINARY), name: path, owned: true, **options)
          end
        end

        # {#close} closes `io` only if `owned` is true.
        def initialize(io, name:, owned: false, **options)
          super(name, **options)
          @io = io
          @io.sync = true
          @owned = owned
        end

        def write(data, _clients = nil)
          at = 0
          while at < data.bytesize
            piece = data.byteslice(at, PIECE_BYTES)
            at += @retries.until_success("write") { Writing.in_thread(abandon: true) { write_some(piece) } }
          end
        end

        def reopen; end

        def close = (@io.close if @owned)

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
