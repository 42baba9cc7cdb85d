# frozen_string_literal: true

# An access log's file, which can be reopened after a rotation. Appends a text by one write(2), so
# that processes do not mix lines. Used by AccessLog.

module Gyre
  module Web
    class LogFile
      MODE = File::WRONLY | File::APPEND | File::CREAT
      PERMISSIONS = 0o644

      attr_reader :path

      def initialize(path)
        @path = File.expand_path(path)
        @io = open
        @torn = false
        @lock = Mutex.new
      end

      # Raises SystemCallError (such as for a full disk); the rest of the text is then lost.
      def write(text)
        @lock.synchronize do
          text = "\n#{text}" if @torn # ends the piece of a line that an error has left
          written = 0
          written += @io.syswrite(written.zero? ? text : text.byteslice(written..-1)) while written < text.bytesize
          @torn = false
        rescue SystemCallError
          @torn ||= written.positive?
          raise
        end
      end

      def flush; end

      # Opens the file again; keeps the old one if that fails. Any thread may call it.
      def reopen
        fresh = open
        @lock.synchronize do
          old, @io = @io, fresh
          @torn = false
          old.close # its error leaves the new file in use
        end
      end

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
