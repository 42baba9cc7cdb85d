# frozen_string_literal: true

# What Loop#watch_file holds: an inotify descriptor for the file's folder, or else a look at the
# file now and then. Made by Gyre::Loop; an engine's loop calls io, interval, event and cancel.

module Gyre
  class Loop
    # A path, whatever file it names at the moment.
    class FileWatch
      # How often it is looked at where there is no inotify.
      INTERVAL_S = 0.5
      # Bytes of reports taken at once; one has at most 16 and a name of 256.
      REPORTS_BYTES = 16_384
      # What stands before the name in a report: watch, mask, cookie, length of the name.
      HEAD = "iIII"
      HEAD_BYTES = 16

      # @return [IO, nil]
      attr_reader :io
      # @return [Float, nil] seconds between two looks
      attr_reader :interval

      # @param path [String, #to_path]
      # @param engine [#inotify, nil]
      # @raise [SystemCallError] when its folder is not there
      def initialize(path, engine)
        @path = File.expand_path(path)
        @folder, @name = File.split(@path)
        File.stat(@folder)
        # Into a folder, and behind a symlink, only a watch of its own sees.
        paths = File.directory?(@path) || File.symlink?(@path) ? [@folder, @path] : [@folder]
        fd, _, @own = engine&.inotify(paths)
        if fd
          @io = IO.for_fd(fd)
        else
          @interval = INTERVAL_S
          @signature = signature
        end
      end

      # @return [Boolean] whether it was changed; of an event that was queued before {#cancel}
      #   nothing is delivered
      def event
        return false if @cancelled

        @io ? reported : changed
      end

      def cancel
        @cancelled = true
        @io&.close
      end

      private

      # Takes all reports; those about other files of the folder do not count.
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
        nil # not there
      end
    end
  end
end
