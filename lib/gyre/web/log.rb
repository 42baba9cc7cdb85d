# frozen_string_literal: true

# The server's own messages: notices (started, stopping) and errors, these with the time. The HTTP
# server and Gyre::Web::Server write here; requests go to Gyre::Web::AccessLog. It never raises.

module Gyre
  module Web
    # A log for people. Every message is one write, so that those of several threads do not mix.
    class Log
      # @param notices [IO, nil] where notices go; nil drops them
      # @param errors [IO]
      def initialize(notices: nil, errors: $stderr)
        @notices = notices
        @errors = errors
      end

      # @param message [String]
      # @return [void]
      def info(message)
        write(@notices, "#{message}\n") if @notices
      end

      # @param message [String] what happened to what; a trace may follow on lines of its own
      # @return [void]
      def error(message)
        write(@errors, "#{Time.now.strftime("%Y-%m-%dT%H:%M:%S.%3N%:z")} gyre: #{message.chomp}\n")
      end

      private

      def write(io, text)
        io.write(text)
        io.flush
      rescue IOError, SystemCallError
        nil # nowhere left to report it
      end
    end
  end
end
