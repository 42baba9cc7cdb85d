# frozen_string_literal: true

# `gyre log send`: one message, or a message for each line of standard input, from a shell. Gyre::LogCommand starts it. It says by
# its exit status whether the server has everything safe; it keeps nothing for later unless it is told where.

require "gyre/log_command/target"

module Gyre
  module LogCommand
    # One use of a client.
    class Send
      BANNER = <<~TEXT
        Sends messages to a log server, and waits until they are stored there.

        Usage: gyre log send [options] SERVICE SEVERITY [MESSAGE]
               program | gyre log send [options] SERVICE SEVERITY

        Without MESSAGE it is each line of standard input. The exit status is 0 when the
        server has stored everything, and 1 otherwise.
      TEXT
      WITHIN_S = 10

      # @param out [IO]
      # @param err [IO]
      # @param input [IO]
      def initialize(out:, err:, input:)
        @out = out
        @err = err
        @input = input
        @target = Target.new
        @within_s = WITHIN_S
      end

      # @param arguments [Array<String>]
      # @return [Integer] the exit status
      # @raise [UsageError, StartError]
      def start(arguments)
        usage = Usage.new(arguments, BANNER) { |flags| declare(flags) }
        return help(usage) if @help

        service, severity, *words = usage.rest
        raise UsageError, "say the service and the severity, as in: gyre log send backup info done" unless severity

        deliver(service, severity, words)
      end

      private

      def declare(flags)
        @target.declare(flags)
        flags.separator "\nHow:"
        flags.on("--within SECONDS", Float, "how long to wait for the server (#{WITHIN_S})") { |value| @within_s = value }
        flags.on("--help", "print this text") { @help = true }
      end

      def help(usage)
        @out.puts(usage.help)
        DONE
      end

      def deliver(_service, _severity, _words)
        raise StartError, "the client is not there yet"
      end
    end
  end
end
