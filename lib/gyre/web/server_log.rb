# frozen_string_literal: true

# Writes the server's own messages: notices, and errors with the time. Used by HTTP::Server and
# Gyre::Web::Server. Never raises and never waits for a stuck pipe.

require "gyre/settings/units"
require "gyre/web/access_log/line_writer"
require "io/wait"

module Gyre
  module Web
    # Writes each message in one piece, so that threads do not mix messages.
    class ServerLog
      # @param notices [IO, nil] nil drops notices
      # @param errors [IO]
      def initialize(notices: nil, errors: $stderr)
        @notices = notices
        @errors = errors
        @waiting = {}
      end

      # @param message [String]
      def info(message) = (write(@notices, "#{message}\n") if @notices)

      # @param message [String] may have further lines
      def error(message) = write(@errors, "#{Time.now.strftime("%Y-%m-%dT%H:%M:%S.%3N%:z")} gyre: #{message.chomp}\n")

      private

      def write(io, text)
        writer = @waiting[io]
        return writer.add(text) unless writer.nil? || writer.empty?
        return put(io, text) unless LineWriter.pipe?(io)

        until text.empty?
          return wait(io, text) unless io.wait_writable(0)

          put(io, text.byteslice(0, LineWriter::PIPE_BYTES))
          text = text.byteslice(LineWriter::PIPE_BYTES..).to_s
        end
      rescue IOError, SystemCallError
        nil # the log is the only place for a report
      end

      def put(io, text)
        io.write(text)
        io.flush
      rescue IOError, SystemCallError
        nil
      end

      # Continues in a thread, which also writes later messages.
      def wait(io, text)
        writer = @waiting[io] ||= LineWriter.new do |lines, dropped|
          put(io, lines)
          put(io, "gyre: #{Units.count(dropped, "line")} of this log were lost here: their reader was too slow\n") if dropped.positive?
        end
        writer.add(text)
      end
    end
  end
end
