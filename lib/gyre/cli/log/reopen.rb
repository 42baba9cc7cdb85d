# frozen_string_literal: true

# `gyre log reopen`: has a server reopen its files, as HUP does, and waits until it has: for logrotate, which compresses what it has
# renamed as soon as its script has ended. Gyre::LogCommand starts it.

require "gyre/log/viewer"
require "gyre/cli/log/target"

module Gyre
  module LogCommand
    # One request.
    class Reopen
      BANNER = <<~TEXT
        Has a log server write everything and reopen its files, as HUP does, and
        waits until it has. Then what was renamed may be compressed or removed.

        Usage: gyre log reopen [options]
      TEXT
      WITHIN_S = 60

      # @param out [IO]
      # @param err [IO] nothing is written there
      # @param input [IO] is not read
      def initialize(out:, err:, input: nil)
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
        usage = Flags.new(BANNER) { |flags| declare(flags) }
        rest = usage.read(arguments)
        return help(usage) if @help
        raise UsageError, "#{rest.first}: nothing is expected there" if rest.any?

        Log::Viewer.new(@target.endpoint, key: @target.key, tls: @target.tls).reopen(within_s: @within_s)
        DONE
      rescue SystemCallError, SocketError, EOFError, Log::Denied, Log::Incompatible, ProtocolError => error
        raise StartError, @target.explain(error)
      end

      private

      def declare(flags)
        @target.declare(flags)
        flags.separator "\nHow:"
        flags.on("--within SECONDS", Float, "how long to wait for it (#{WITHIN_S})") { |value| @within_s = value }
        flags.on("--help", "print this text") { @help = true }
      end

      def help(usage)
        @out.puts(usage.help)
        DONE
      end
    end
  end
end
