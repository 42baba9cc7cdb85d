# frozen_string_literal: true

# The portable engine's backend, by IO.select. Called by Gyre::Loop::Portable; follows the contract
# in ext/gyre/loop/backend.h.
require_relative "wakeup_pipe"

module Gyre
  class Loop
    # Each wait takes time for each watched descriptor, as select(2) checks all of them.
    class Select
      NAME = "select"

      # Runs the block without the scheduler's hook, which IO.select calls since Ruby 3.2.
      if Fiber.respond_to?(:blocking)
        def self.blocking(&block) = Fiber.current.blocking? ? block.call : Fiber.blocking(&block)
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
        @woken = false # the pipe has bytes
      end

      # Watches a descriptor and replaces its earlier watch. {#wait} reports it while it is ready,
      # or once its IO was closed.
      def watch(io, interest)
        io = IO.for_fd(io, autoclose: false) if io.is_a?(Integer)
        fd = io.fileno
        @ios[fd] = io
        keep(@readers, fd, io, interest & IO::READABLE)
        keep(@priorities, fd, io, interest & IO::PRIORITY)
        keep(@writers, fd, io, interest & IO::WRITABLE)
      end

      def unwatch(fd)
        @ios.delete(fd)
        @readers.delete(fd)
        @priorities.delete(fd)
        @writers.delete(fd)
      end

      # Waits for events, until the timeout (0: only checks; nil: no limit) or {#wake}. Returns
      # events by descriptor, 0 for a closed descriptor. Raises RuntimeError if descriptors exceed
      # the limit of select(2).
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

      # Ends the present or next wait. Any thread or trap handler may call it.
      def wake
        Thread.handle_interrupt(WakeupPipe::NEVER) { signal } unless @woken
      rescue IO::WaitWritable
        nil # full of pending wake-ups
      rescue IOError, Errno::EPIPE
        nil # closed: nothing waits any more
      end

      # Closes the pipe, not the watched descriptors.
      def close
        @wakeup_reader.close
        @wakeup_writer.close
      end

      private

      # An interruption between flag and byte would leave the flag set: `wake` would write no more.
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
        nil # another thread took them
      ensure
        @woken = false # after the read: a wake-up in between needs no byte, as the loop is awake
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
