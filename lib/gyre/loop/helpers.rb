# frozen_string_literal: true

# Watches of files, processes and signals for Gyre::Loop. Loops call io, interval, event and cancel.

require_relative "traps"

module Gyre
  class Loop
    # A helper with a descriptor of the kernel, or with periodic checks.
    class Helper
      attr_reader :io
      attr_reader :interval

      # Takes a descriptor's number, nil without kernel support.
      def initialize(fd)
        fd ? @io = IO.for_fd(fd) : @interval = self.class::INTERVAL_S
      end

      # Returns whether the key is due.
      def event = !@cancelled && due?

      def cancel
        @cancelled = true
        @io&.close
      end
    end

    # Loop#watch_file, by inotify on the file's folder or periodic checks. Whatever file the path
    # names.
    class FileWatch < Helper
      # Without inotify.
      INTERVAL_S = 0.5
      # A report has 16 bytes and a name of up to 256.
      REPORTS_BYTES = 16_384
      # A report's watch, mask, cookie, length of the name.
      HEAD = "iIII"
      HEAD_BYTES = 16

      def initialize(path, engine)
        @path = File.expand_path(path)
        @folder, @name = File.split(@path)
        File.stat(@folder)
        # Changes inside a folder or behind a symlink need another watch.
        paths = File.directory?(@path) || File.symlink?(@path) ? [@folder, @path] : [@folder]
        fd, _, @own = engine&.inotify(paths)
        super(fd)
        @signature = signature unless fd
      end

      private

      def due? = @io ? reported : changed

      # Takes all reports; ignores the folder's other files.
      def reported
        found = false
        while (bytes = @io.read_nonblock(REPORTS_BYTES, exception: false)).is_a?(String)
          offset = 0
          while offset < bytes.bytesize
            watch, _mask, _cookie, length = bytes.byteslice(offset, HEAD_BYTES).unpack(HEAD)
            name = bytes.byteslice(offset + HEAD_BYTES, length).delete("\0")
            found ||= watch == @own || watch == -1 || name == @name.b
            offset += HEAD_BYTES + length
          end
        end
        found
      end

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

    # Loop#watch_process, by a pidfd or periodic checks.
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

      # Takes the status; true if ended. After {#cancel} others reap the child.
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

      # Called once the key is free. Cancels itself in a daemon whose loop starts over.
      def start
        @listener = Traps.add(@name, moved: -> { @loop.watching?(@key) }) { @loop.emit(@key) }
      rescue ArgumentError, SystemCallError => error
        @loop.unwatch(@key)
        raise ArgumentError, "watch signal #{@name}: #{error.message}"
      end

      def cancel
        Traps.remove(@listener) if @listener
      end
    end
  end
end
