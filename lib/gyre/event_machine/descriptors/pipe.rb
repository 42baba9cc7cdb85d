# frozen_string_literal: true

# The transport of a Stream over a pipe or terminal: the methods of Gyre::Transport that Stream
# calls.
require "fcntl"

module Gyre
  module EventMachine
    module Descriptors
      class Pipe
        attr_reader :to_io

        # Calls the block when bytes have to wait for room.
        def initialize(io, &full)
          @to_io = io
          @queue = String.new
          @full = full
        end

        def write_only? = @to_io.fcntl(Fcntl::F_GETFL) & Fcntl::O_ACCMODE == File::WRONLY

        def read_available(limit) = @to_io.read_nonblock(limit, exception: false)

        def pending? = false

        def queue(bytes) = @queue << bytes.b

        def send_soon(bytes)
          queue(bytes)
          @full.call unless flush_available == true
        end

        def hold; end

        def flush_available
          until @queue.empty?
            count = @to_io.write_nonblock(@queue, exception: false)
            return count unless count.is_a?(Integer)

            @queue.slice!(0, count)
          end
          true
        end

        def unsent_bytes = @queue.bytesize

        def finish_available = true

        def abandon = @to_io.close
      end
    end
  end
end
