# frozen_string_literal: true

# `gyre log` with serve, send, tail, status, reopen, done by cli/log/.

require "gyre/cli"
require "gyre/cli/flags"

module Gyre
  module CLI
    module Log
      # The default is serve, for Analogger's command line.
      COMMANDS = { "serve" => "Serve", "send" => "Send", "tail" => "Tail", "status" => "Status",
                   "reopen" => "Reopen" }.freeze

      def self.start(arguments, out: $stdout, err: $stderr, input: $stdin)
        name, *rest = arguments
        return unknown(name, err) if name&.match?(/\A\w/) && !COMMANDS.key?(name)

        name, rest = "serve", arguments unless COMMANDS.key?(name)
        require "gyre/cli/log/#{name}"
        command = const_get(COMMANDS.fetch(name)).new(out: out, err: err, input: input)
        CLI.run(name == "serve" ? "gyre log" : "gyre log #{name}", command, rest, out: out, err: err)
      end

      def self.unknown(name, err)
        hint = Settings.nearest(name, COMMANDS.keys) || "known: #{COMMANDS.keys.join(", ")}."
        err.puts("gyre log: unknown command #{name}; #{hint} Run `gyre log --help`.")
        MISUSED
      end
    end
  end
end
