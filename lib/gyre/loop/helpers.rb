# frozen_string_literal: true

# Watches of files, processes and signals for Gyre::Loop, which calls their io, interval, event and
# cancel.

require_relative "traps"

module Gyre
  class Loop
    # A helper whose descriptor the kernel reports as ready, or that checks periodically.
    class Helper
      attr_reader :io
      attr_reader :interval

      # `fd`: the descriptor's number; nil if the kernel has no such descriptor.
      def initialize(fd)
        fd ? @io = IO.for_fd(fd) : @interval = self.class::INTERVAL_S
      end

      # Called at a report or a check. Returns whether the key is due.
      def event = !@cancelled && due?

      def cancel
        @cancelled = true
        @io&.close
      end
    end

    # Loop#watch_file, by inotify on the folder or by periodic checks. Watches whatever file is at
    # the path.
    class FileWatch < Helper
      # Seconds between checks where inotify is missing.
      INTERVAL_S = 0.5
      # Maximum bytes of a read. A report has 16 bytes and a name of up to 256.
      REPORTS_BYTES = 16_384
      # Layout of a report: watch, mask, cookie, length of the name.
      HEAD = "iIII"
      HEAD_BYTES = 16

      # Takes all reports of an inotify descriptor: watch, mask and name. The fiber does not park,
      # as Ruby 4.0 would have a thread read.
      def self.reports(io)
        found = []
        read = -> { io.read_nonblock(REPORTS_BYTES, exception: false) }
        while (bytes = Fiber.new(blocking: true, &read).resume).is_a?(String)
          offset = 0
          while offset < bytes.bytesize
            watch, mask, _cookie, length = bytes.byteslice(offset, HEAD_BYTES).unpack(HEAD)
            found << [watch, mask, bytes.byteslice(offset + HEAD_BYTES, length).delete("\0")]
            offset += HEAD_BYTES + length
          end
        end
        found
      end

      def initialize(path, engine)
        @path = File.expand_path(path)
        @folder, @name = File.split(@path)
        File.stat(@folder)
        # Changes inside a folder or behind a symlink need a second watch.
        paths = File.directory?(@path) || File.symlink?(@path) ? [@folder, @path] : [@folder]
        fd, _, @own = engine&.inotify(paths)
        super(fd)
        @signature = signature unless fd
      end

      private

      def due? = @io ? reported : changed

      # True if a report is about this file, not another file of the folder.
      def reported = FileWatch.reports(@io).map { |watch, _, name| watch == @own || watch == -1 || name == @name.b }.any?

      def changed
        before = @signature
        @signature = signature
        before != @signature
      end

      def signature
        stat = File.stat(@path)
        [stat.ino, stat.mtime, stat.ctime, stat.size]
      rescue SystemCallError
        nil # missing
      end
    end

    # Loop#watch_process, by a pidfd or by periodic checks.
    class ProcessWatch < Helper
      INTERVAL_S = 0.05

      def initialize(loop, key, pid, engine, &ended)
        @loop = loop
        @key = key
        @pid = pid
        @ended = ended
        super(engine&.pidfd(pid))
      end

      private

      # Reaps the child; true if it has ended. After {#cancel} the program reaps the child itself.
      def due?
        pid, status = Process.wait2(@pid, Process::WNOHANG)
        finish(status) if pid
        !pid.nil?
      rescue Errno::ECHILD
        finish(nil) # reaped elsewhere
        true
      end

      def finish(status)
        @ended.call(status)
        @loop.unwatch(@key)
      end
    end

    # Loop#watch_signal: a trap that emits a key.
    class SignalWatch
      attr_reader :io, :interval

      def initialize(loop, key, name)
        @loop = loop
        @key = key
        number = name.is_a?(Integer) ? name : Signal.list.fetch(name.to_s.sub(/\ASIG/, "")) { raise ArgumentError, "unknown signal #{name.inspect}" }
        @name = Signal.signame(number) || number # a name for Signal.trap: JRuby numbers signals differently
      end

      # Called once the watch has its key. `moved` ends the watch in a daemon.
      def start
        @listener = Traps.add(@name, moved: -> { @loop.watching?(@key) }) { @loop.emit(@key) }
      rescue ArgumentError, SystemCallError => error
        @loop.unwatch(@key)
        raise ArgumentError, "watch signal #{@name}: #{error.message}"
      end

      def cancel = (Traps.remove(@listener) if @listener)
    end
  end
end
