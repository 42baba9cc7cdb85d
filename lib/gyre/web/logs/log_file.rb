# frozen_string_literal: true

# An access log's file, reopened after rotation. Each write is one appending write(2): processes do
# not mix lines. Used by AccessLog.

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

      # On SystemCallError (a full disk) the rest is lost.
      def write(text)
        @lock.synchronize do
          text = "\n#{text}" if @torn # another process may have written behind the piece, and then it has its own line
          written = 0
          written += @io.syswrite(written.zero? ? text : text.byteslice(written..-1)) while written < text.bytesize
          @torn = false
        rescue SystemCallError
          @torn ||= written.positive?
          raise
        end
      end

      def flush; end

      # Keeps the old file if the new one does not open. Any thread may call it.
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
