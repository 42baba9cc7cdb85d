# frozen_string_literal: true

# Runs `gyre dns` and `gyre dns query`, whose code is in cli/dns/.

require "gyre/cli"

module Gyre
  module CLI
    module DNS
      def self.start(arguments, out: $stdout, err: $stderr, input: $stdin)
        name = arguments.first == "query" ? "query" : "serve"
        require "gyre/cli/dns/#{name}"
        command = const_get(name.capitalize).new(out: out, err: err, input: input)
        CLI.run(name == "query" ? "gyre dns query" : "gyre dns", command, name == "query" ? arguments.drop(1) : arguments, out: out, err: err)
      end
    end
  end
end
