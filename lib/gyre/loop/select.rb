# frozen_string_literal: true

# The backend without C: asks the kernel by IO.select. Gyre::Loop::Portable calls it and keeps
# account of what waits for which descriptor; the contract is that of the backends in C, see
# ext/gyre/loop/backend.h. It handles no fibers and never calls back.
require_relative "wakeup_pipe"

module Gyre
  class Loop
    # select(2). Takes time in proportion to the number of watched descriptors.
    class Select
      # The name for GYRE_BACKEND.
      NAME = "select"

      # Runs the block so that no fiber scheduler sees what it does: since Ruby 3.2 IO.select is a
      # hook itself, and must not come back to us.
      if Fiber.respond_to?(:blocking)
        def self.blocking(&block)
          Fiber.current.blocking? ? block.call : Fiber.blocking(&block)
        end
      else
        def self.blocking
          yield
        end
      end

      def initialize
        @ios = {}
        @readers = {}
        @priorities = {}
        @writers = {}
        @wakeup_reader, @wakeup_writer = WakeupPipe.open
        @woken = false # there is something in it
      end

      # Reports a descriptor from now on whenever it is ready; replaces an earlier watch of the same
      # number.
      # @param io [IO, Integer] with an IO object, a close of that object is noticed
      # @param interest [Integer] sum of IO::READABLE, IO::WRITABLE, IO::PRIORITY
      # @raise [IOError, Errno::EBADF] when it is closed
      def watch(io, interest)
        io = IO.for_fd(io, autoclose: false) if io.is_a?(Integer)
        fd = io.fileno
        @ios[fd] = io
        keep(@readers, fd, io, interest & IO::READABLE)
        keep(@priorities, fd, io, interest & IO::PRIORITY)
        keep(@writers, fd, io, interest & IO::WRITABLE)
      end

      # Ends the watch of a descriptor; harmless when there is none.
      # @param fd [Integer]
      def unwatch(fd)
        @ios.delete(fd)
        @readers.delete(fd)
        @priorities.delete(fd)
        @writers.delete(fd)
      end

      # Waits until something is ready, until the time is over or until {#wake}.
      # @param timeout [Numeric, nil] seconds; 0 only looks, nil waits for ever
      # @return [Hash{Integer => Integer}] what is ready by descriptor; 0 for a descriptor that is
      #   not open any more
      # @raise [RuntimeError] when there are more descriptors than select(2) can watch on this
      #   system
      def wait(timeout)
        ready = Select.blocking { IO.select(@readers.values.push(@wakeup_reader), @writers.values, @priorities.values, timeout) }
        ready ? collect(ready) : {}
      rescue IOError, Errno::EBADF
        lost = descriptors_not_open
        raise if lost.empty?

        lost
      rescue Errno::EINVAL, ArgumentError, RangeError => error
        raise if @ios.empty?

        raise "select(2) cannot watch #{@ios.size} descriptors up to number #{@ios.keys.max} here (#{error.message}): " \
              "its limit, FD_SETSIZE, often is 1024. The native engine has no such limit; `rake compile` builds it"
      end

      # Ends the present or the next wait. May be called by any thread and in a trap handler.
      def wake
        Thread.handle_interrupt(Object => :never) { signal } unless @woken
      rescue IO::WaitWritable
        nil # full of wake-ups that are not taken yet: one more would change nothing
      rescue IOError, Errno::EPIPE
        nil # closed: nothing waits any more
      end

      # Gives its own descriptors back; the watched ones are not touched.
      def close
        @wakeup_reader.close
        @wakeup_writer.close
      end

      private

      # The flag without the byte would be the end of all waking, so nothing may come in between.
      def signal
        @woken = true
        @wakeup_writer.write_nonblock(".")
      end

      def keep(table, fd, io, wanted)
        if wanted == 0
          table.delete(fd)
        else
          table[fd] = io
        end
      end

      def collect(ready)
        events = {}
        readers, writers, priorities = ready
        drain if readers.delete(@wakeup_reader)
        readers.each { |io| events[io.fileno] = IO::READABLE }
        priorities.each { |io| events[io.fileno] = (events[io.fileno] || 0) | IO::PRIORITY }
        writers.each { |io| events[io.fileno] = (events[io.fileno] || 0) | IO::WRITABLE }
        events
      end

      def drain
        Select.blocking { @wakeup_reader.read_nonblock(1024) }
      rescue IO::WaitReadable
        nil # another one took them
      ensure
        @woken = false # after the reading: one that comes in between finds the loop awake
      end

      def descriptors_not_open
        lost = {}
        @ios.each do |fd, io|
          begin
            Select.blocking { IO.select([io], nil, nil, 0) }
          rescue IOError, Errno::EBADF
            lost[fd] = 0
          end
        end
        lost
      end
    end
  end
end
