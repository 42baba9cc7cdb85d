# frozen_string_literal: true

# The file of an access log, which log rotation renames and the server then opens again. Each write
# is one write(2) behind what is there, so that the lines of several processes do not mix. AccessLog
# writes to it as to an IO.

module Gyre
  module Web
    # See the head of this file.
    class LogFile
      MODE = File::WRONLY | File::APPEND | File::CREAT
      PERMISSIONS = 0o644
      private_constant :MODE, :PERMISSIONS

      # @return [String]
      attr_reader :path

      # @param path [String]
      # @raise [SystemCallError] it cannot be opened
      def initialize(path)
        @path = File.expand_path(path)
        @io = open
        @torn = false
      end

      # @param text [String] whole lines
      # @return [void]
      # @raise [SystemCallError] the disk is full, for example: what could not be written is lost
      def write(text)
        text = "\n#{text}" if @torn # another process may have written behind the piece, and then it has a line of its own
        written = 0
        written += @io.syswrite(written.zero? ? text : text.byteslice(written..-1)) while written < text.bytesize
        @torn = false
      rescue SystemCallError
        @torn ||= written.to_i.positive?
        raise
      end

      # @return [void]
      def flush; end

      # Opens the path again, after a rotation. The old file stays in use when that cannot be done.
      #
      # @return [void]
      # @raise [SystemCallError]
      def reopen
        fresh = open
        old = @io
        @io = fresh
        @torn = false
        old.close
      end

      # @return [void]
      def close = @io.close

      private

      def open
        File.open(@path, MODE, PERMISSIONS).tap { |io| io.sync = true }
      rescue SystemCallError => error
        raise error.class, "open #{@path}"
      end
    end
  end
end
