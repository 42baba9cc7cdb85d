# frozen_string_literal: true

# Loop#watch_file: watches by an inotify descriptor of the file's folder, or by periodic checks.
# Made by Gyre::Loop; the engines' loops call io, interval, event and cancel.

module Gyre
  class Loop
    # A path, whatever file it names at the time.
    class FileWatch
      # Between checks without inotify.
      INTERVAL_S = 0.5
      # Bytes read at once; a report has at most 16 bytes and a name of 256.
      REPORTS_BYTES = 16_384
      # Head of a report: watch, mask, cookie, length of the name.
      HEAD = "iIII"
      HEAD_BYTES = 16

      attr_reader :io
      attr_reader :interval

      def initialize(path, engine)
        @path = File.expand_path(path)
        @folder, @name = File.split(@path)
        File.stat(@folder)
        # Changes inside a folder, or behind a symlink, need a watch of their own.
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

      # Takes all reports; ignores other files of the folder.
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
