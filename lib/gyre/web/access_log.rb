# frozen_string_literal: true

# The access log: a line for each request, written by a thread (LineWriter). Called by the HTTP
# server after each response; closed by Gyre::Web::Server. Never raises or waits.

require "gyre/settings/units"
require "gyre/web/access_log/line_writer"
require "gyre/web/access_log/log_file"
require "gyre/web/access_log/log_format"

module Gyre
  module Web
    # Collects lines and writes many of them with one call.
    class AccessLog
      # Maximum seconds that {#reopen} waits for the new file.
      REOPEN_S = 5
      private_constant :REOPEN_S

      # @param format [String] as for {LogFormat.named}, except "none"
      # @param out [IO, StringIO, LogFile] written in another thread
      # @param log [#error, nil] reports failing writes, the recovery, and dropped lines
      # @param bytes_limit [Integer] of pending lines
      def initialize(format = "common", out: $stdout, log: nil, bytes_limit: LineWriter::BYTES_LIMIT)
        @format = LogFormat.named(format)
        @out = out
        @log = log
        @failing = false
        @piped = LineWriter.pipe?(out)
        @writer = LineWriter.new(bytes_limit: bytes_limit) { |lines, dropped| write(lines, dropped) }
      end

      # Adds a line, which the thread writes within milliseconds.
      # @param env [Hash] the Rack environment
      # @param status [Integer]
      # @param bytes [Integer] of the sent body
      # @param seconds [Float]
      def call(env, status, bytes, seconds) = @writer.add(@format.line(env, status, bytes, seconds))

      # @return [Integer] lines dropped beyond bytes_limit
      def dropped = @writer.dropped

      # Writes pending lines for a second at most, and closes the log's file.
      def close
        report_dropped(@writer.close)
        @out.close if @out.is_a?(LogFile)
      end

      # True if the format needs response headers (LogFormat::ResponseHeaders).
      # @return [Boolean]
      def response_headers? = @format.response_headers?

      # Reopens the file after a rotation. Opens it in a thread, because a disk may be slow.
      # @return [Boolean] false if the log has no file
      # @raise [SystemCallError] the old file stays in use, or fails to close
      def reopen
        return false unless @out.is_a?(LogFile)

        thread = Thread.new { @out.reopen }
        thread.report_on_exception = false # join raises it
        raise Errno::ETIMEDOUT, "open #{@out.path}" unless thread.join(REOPEN_S)

        true
      end

      private

      def write(lines, dropped)
        pieces(lines).each do |piece|
          @out.write(piece)
          @out.flush
        end
        @failing = false
        report_dropped(dropped)
      rescue IOError, SystemCallError => error
        @log&.error("the access log cannot be written, lines are lost: #{error.message}") unless @failing
        @failing = true
      end

      def report_dropped(count)
        return unless count.positive?

        @log&.error("the access log's reader is too slow: #{Units.count(count, "line")} lost")
      end

      # Groups lines into pieces that a pipe takes whole: other processes' lines do not split them.
      def pieces(lines)
        return [lines] unless @piped && lines.bytesize > LineWriter::PIPE_BYTES

        lines.each_line.with_object([+""]) do |line, pieces|
          pieces << +"" if pieces.last.bytesize + line.bytesize > LineWriter::PIPE_BYTES && !pieces.last.empty?
          pieces.last << line
        end
      end
    end
  end
end
