# frozen_string_literal: true

# The access log: a line for each request, gathered and written together, once a turn of the loop.
# The HTTP server calls it when a response has left; Gyre::Web::Server closes it at the end. It
# never raises: a log that cannot be written must not end a request.

require "gyre/web/log_file"
require "gyre/web/log_format"

module Gyre
  module Web
    # Collects lines and writes many with one call.
    class AccessLog
      # From so many bytes on, the request that logs writes them itself, and thereby waits for a
      # slow reader.
      BUFFER_BYTES_LIMIT = 32 * 1024
      # So many bytes go into a pipe in one piece, whatever other processes write (pipe(7)).
      PIPE_BYTES = 4096
      private_constant :PIPE_BYTES

      # @param format [String] as {LogFormat.named} takes it, but not "none"
      # @param out [IO, StringIO, LogFile]
      # @param on_error [#call, nil] called with the exception the first time that writing fails,
      #   and the first time after it has worked again
      def initialize(format = "common", out: $stdout, on_error: nil)
        @format = LogFormat.named(format)
        @out = out
        @on_error = on_error
        @failing = false
        @piped = out.is_a?(IO) && out.stat.then { |stat| stat.pipe? || stat.socket? }
        @buffer = String.new(capacity: BUFFER_BYTES_LIMIT)
        @writing = Mutex.new
        @flush_due = false
      end

      # Adds a line; it is written at the end of this turn of the loop, or at once where no loop
      # runs.
      #
      # @param env [Hash] the Rack environment
      # @param status [Integer]
      # @param bytes [Integer] of body sent
      # @param seconds [Float]
      # @return [void]
      def call(env, status, bytes, seconds)
        @buffer << @format.line(env, status, bytes, seconds)
        return flush if @buffer.bytesize >= BUFFER_BYTES_LIMIT
        return if @flush_due

        flush_later
      end

      # Writes what was gathered.
      #
      # @return [void]
      def flush
        @writing.synchronize do
          until @buffer.empty?
            lines = @buffer
            @buffer = String.new(capacity: BUFFER_BYTES_LIMIT)
            pieces(lines).each do |piece|
              @out.write(piece)
              @out.flush
            end
            @failing = false
          end
        end
      rescue IOError, SystemCallError => error
        failed(error)
      end

      # Writes what was gathered; a file of the log's own is closed.
      #
      # @return [void]
      def close
        flush
        @out.close if @out.is_a?(LogFile)
      end

      # Whether response headers are to be kept for it (see LogTemplate::ResponseHeaders).
      #
      # @return [Boolean]
      def response_headers? = @format.respond_to?(:response_headers?) && @format.response_headers?

      # Opens the log's file again, after a rotation.
      #
      # @return [Boolean] false: it has none
      # @raise [SystemCallError] the old file stays in use
      def reopen
        return false unless @out.is_a?(LogFile)

        flush
        @writing.synchronize { @out.reopen }
        true
      end

      private

      # The fiber goes to the end of the ready queue: every request that is ready now logs before it
      # writes.
      def flush_later
        scheduler = Fiber.current_scheduler
        return flush unless scheduler

        @flush_due = true
        Fiber.schedule do
          sleep(0)
          flush
        ensure
          @flush_due = false
        end
      end

      # A line is not torn by those of other processes that write into the same pipe.
      def pieces(lines)
        return [lines] unless @piped && lines.bytesize > PIPE_BYTES

        lines.each_line.with_object([+""]) do |line, pieces|
          pieces << +"" if pieces.last.bytesize + line.bytesize > PIPE_BYTES && !pieces.last.empty?
          pieces.last << line
        end
      end

      def failed(error)
        @on_error&.call(error) unless @failing
        @failing = true
      end
    end
  end
end
