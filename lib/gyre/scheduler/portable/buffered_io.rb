# frozen_string_literal: true

# The hooks io_read and io_write of the portable engine. Without them Ruby reads and writes itself, and calls io_wait when it
# would block; but before Ruby 4.0 a close by another fiber then raises in the closer, or crashes, and a read from a
# descriptor in blocking mode (an inherited stdin) stops the whole loop. So they are here for the Rubies that need them.
require "fcntl"

module Gyre
  class Scheduler
    class Portable < Scheduler
      # Included by Portable.
      module BufferedIO
        # Ruby 4.0 does it right by itself; 4.1 gives the arguments another meaning; 3.2.5 had a broken interface.
        READ = RUBY_VERSION < "4" && RUBY_VERSION != "3.2.5"
        # Before 3.3.1 the buffer of io_write could lose its lock (Ruby bug 19640).
        WRITE = READ && (RUBY_VERSION.split(".").map(&:to_i) <=> [3, 3, 1]) >= 0
        AGAIN = -Errno::EAGAIN::Errno
        # How much a pipe that select(2) calls writable takes without waiting: POSIX's least PIPE_BUF.
        PIPE_BYTES = 512
        private_constant :AGAIN, :PIPE_BYTES

        if READ
          # Fiber::Scheduler#io_read.
          # @param length [Integer] the least number of bytes to wait for; 0: try once
          # @return [Integer] bytes read, 0 at the end; or -errno
          def io_read(io, buffer, length, offset = 0)
            pace_before(caller_locations(1, 1)) if @fibers.slice_over?
            count = transfer_bytes(io, IO::READABLE, length, offset) { |start, _| read_once(io, buffer, start) }
            return count unless count == AGAIN && caller_locations(1, 1).first.label.end_with?("sysread")

            # IO#sysread does not wait by itself, and would raise EAGAIN.
            transfer_bytes(io, IO::READABLE, 1, offset) { |start, _| read_once(io, buffer, start) }
          end
        end

        if WRITE
          # Fiber::Scheduler#io_write.
          # @param length [Integer] the least number of bytes to write; 0: try once
          # @return [Integer] bytes written; or -errno
          def io_write(io, buffer, length, offset = 0)
            pace_before(caller_locations(1, 1)) if @fibers.slice_over?
            transfer_bytes(io, IO::WRITABLE, length, offset) { |start, waits| write_once(io, buffer, start, waits) }
          end
        end

        private

        def transfer_bytes(io, events, length, offset)
          total = 0
          loop do
            waits = !nonblocking?(io)
            wait_unless_ready(io, events) if waits
            count = yield(offset + total, waits)
            if count.positive?
              total += count
              return total if total >= length
            elsif count == AGAIN && length.positive?
              io_wait(io, events, nil)
            else
              return total.positive? ? total : count
            end
          end
        end

        # A call that must not wait lets nothing else run.
        def pace_before(callers)
          @fibers.end_turn unless callers.first.label.end_with?("_nonblock")
        end

        # A descriptor in blocking mode must not be touched before it is ready.
        def wait_unless_ready(io, events)
          ios = [io]
          ready = Loop::Select.blocking { events == IO::READABLE ? IO.select(ios, nil, nil, 0) : IO.select(nil, ios, nil, 0) }
          io_wait(io, events, nil) unless ready
        end

        # In blocking mode a pipe that is ready still waits for room beyond PIPE_BYTES.
        def write_once(io, buffer, offset, waits)
          bounded = waits && buffer.size - offset > PIPE_BYTES && !io.stat.file?
          part = bounded ? buffer.slice(offset, PIPE_BYTES) : buffer
          Fiber.blocking { part.write(io, 0, bounded ? 0 : offset) }
        end

        # Not io/nonblock, which Ruby 3.1 does not let a Ractor use.
        def nonblocking?(io)
          (io.fcntl(Fcntl::F_GETFL) & File::NONBLOCK).positive?
        rescue NotImplementedError # Windows; then every descriptor is asked whether it is ready
          false
        end

        if Fiber.respond_to?(:blocking)
          def read_once(io, buffer, offset)
            Fiber.blocking { buffer.read(io, 0, offset) }
          end
        else # Ruby 3.1, which has no offset either
          def read_once(io, buffer, _offset)
            Fiber.new(blocking: true) { buffer.read(io, buffer.size) }.resume
          end
        end
      end
    end
  end
end
