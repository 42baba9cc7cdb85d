# frozen_string_literal: true

# What the server says of itself: notices (started, stopping) and errors (with the time, the fault and its trace).
# The HTTP server and Gyre::Web::Server write here; requests go to Gyre::Web::AccessLog. It never raises.

module Gyre
  module Web
    # A log for people. Every message is one write, so that lines of several threads do not mix.
    class Log
      # @param notices [IO, nil] where notices go; nil drops them
      # @param errors [IO] where warnings and errors go
      def initialize(notices: nil, errors: $stderr)
        @notices = notices
        @errors = errors
      end

      # @param message [String]
      # @return [void]
      def info(message)
        write(@notices, "#{message}\n") if @notices
      end

      # @param message [String]
      # @return [void]
      def warn(message)
        write(@errors, "#{time} gyre: #{message}\n")
      end

      # @param message [String] what was being done
      # @param exception [Exception, nil] added with its trace
      # @return [void]
      def error(message, exception = nil)
        trace = "#{exception.full_message(highlight: false, order: :top).chomp}\n" if exception
        write(@errors, "#{time} gyre: #{message}\n#{trace}")
      end

      private

      def time
        Time.now.strftime("%Y-%m-%dT%H:%M:%S.%3N%:z")
      end

      def write(io, text)
        io.write(text)
        io.flush
      rescue IOError, SystemCallError
        nil # nowhere left to say it
      end
    end
  end
end
