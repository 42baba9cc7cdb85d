# frozen_string_literal: true

# Runs the subcommands of `gyre log`: serve, send, tail, status and reopen (in cli/log/).

require "gyre/cli"
require "gyre/cli/flags"

module Gyre
  module CLI
    module Log
      # The default is serve, so that Analogger's command lines work.
      COMMANDS = %w[serve send tail status reopen].freeze

      def self.start(arguments, out: $stdout, err: $stderr, input: $stdin)
        name, *rest = arguments
        return CLI.unknown("gyre log", name, COMMANDS, err) if name&.match?(/\A\w/) && !COMMANDS.include?(name)

        name, rest = "serve", arguments unless COMMANDS.include?(name)
        require "gyre/cli/log/#{name}"
        command = const_get(name.capitalize).new(out: out, err: err, input: input)
        CLI.run(name == "serve" ? "gyre log" : "gyre log #{name}", command, rest, out: out, err: err)
      end
    end
  end
end
