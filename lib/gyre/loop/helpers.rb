# frozen_string_literal: true

# Loop#watch_file, by inotify on the file's folder or periodic checks. Loops call io, interval,
# event and cancel.

module Gyre
  class Loop
    # Whatever file the path names.
    class FileWatch
      # Without inotify.
      INTERVAL_S = 0.5
      # A report has up to 16 bytes and a name of 256.
      REPORTS_BYTES = 16_384
      # A report's watch, mask, cookie, length of the name.
      HEAD = "iIII"
      HEAD_BYTES = 16

      attr_reader :io
      attr_reader :interval

      def initialize(path, engine)
        @path = File.expand_path(path)
        @folder, @name = File.split(@path)
        File.stat(@folder)
        # Changes inside a folder or behind a symlink need another watch.
        paths = File.directory?(@path) || File.symlink?(@path) ? [@folder, @path] : [@folder]
        fd, _, @own = engine&.inotify(paths)
        if fd
          @io = IO.for_fd(fd)
        else
          @interval = INTERVAL_S
          @signature = signature
        end
      end

      def event
        return false if @cancelled

        @io ? reported : changed
      end

      def cancel
        @cancelled = true
        @io&.close
      end

      private

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
  end
end
