# frozen_string_literal: true

# The access log: a line for each request, gathered and written together, once a turn of the loop.
# The HTTP server calls it when a response has left; Gyre::Web::Server closes it at the end. It
# never raises: a log that cannot be written must not end a request.

require "gyre/web/log_format"

module Gyre
  module Web
    # Collects lines and writes many with one call.
    class AccessLog
      # From so many bytes on, the request that logs writes them itself, and thereby waits for a
      # slow reader.
      BUFFER_BYTES_LIMIT = 32 * 1024

      # @param format [String] a name of {LogFormat::NAMES}, but not "none"
      # @param out [IO, StringIO]
      # @param on_error [#call, nil] called with the exception the first time that writing fails
      def initialize(format = "common", out: $stdout, on_error: nil)
        @format = LogFormat.named(format)
        @out = out
        @on_error = on_error
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
            @out.write(lines)
            @out.flush
          end
        end
      rescue IOError, SystemCallError => error
        failed(error)
      end
      alias close flush

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

      def failed(error)
        report = @on_error
        @on_error = nil
        report&.call(error)
      end
    end
  end
end
