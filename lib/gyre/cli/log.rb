# frozen_string_literal: true

# `gyre log`: finds what is asked for (serve, send, tail, status) and runs it. exe/gyre calls it. It answers mistakes with
# plain lines on standard error and never with a trace; what is done is done by the commands in cli/log/.

require "gyre/version"
require "gyre/cli/command_errors"

module Gyre
  # The command line of Gyre::Log.
  module LogCommand
    DONE = 0    # done, or stopped as it was asked to, also by INT or TERM
    FAILED = 1  # could not start, broke, or was not acknowledged
    MISUSED = 2 # the command line makes no sense
    INTERRUPTED = 130 # INT before anything ran: 128 + 2, as shells have it

    # Without a name it is serve, so that Analogger's command line works as it is.
    COMMANDS = { "serve" => "Serve", "send" => "Send", "tail" => "Tail", "status" => "Status",
                 "reopen" => "Reopen" }.freeze

    # @param arguments [Array<String>] what follows `gyre log`
    # @param out [IO]
    # @param err [IO]
    # @param input [IO]
    # @return [Integer] the exit status
    def self.start(arguments, out: $stdout, err: $stderr, input: $stdin)
      name, *rest = arguments
      return unknown(name, err) if name&.match?(/\A\w/) && !COMMANDS.key?(name)

      name, rest = "serve", arguments unless COMMANDS.key?(name)
      require "gyre/cli/log/#{name}"
      const_get(COMMANDS.fetch(name)).new(out: out, err: err, input: input).start(rest)
    rescue UsageError => error
      complain(err, name, "#{error.message}\nRun `gyre log #{"#{name} " unless name == "serve"}--help` for the flags.", MISUSED)
    rescue StartError => error
      complain(err, name, error.message, FAILED)
    rescue Interrupt
      INTERRUPTED
    end

    # @param what [String] what needs the C extension
    # @raise [StartError] where it is absent
    def self.require_native(what)
      Loop.require_native(what)
    rescue ExtensionRequired => error
      raise StartError, error.message
    end

    def self.unknown(name, err)
      err.puts("gyre log: there is no command #{name}. There are: #{COMMANDS.keys.join(", ")}. Run `gyre log --help`.")
      MISUSED
    end

    def self.complain(err, name, text, status)
      prefix = name == "serve" ? "gyre log" : "gyre log #{name}"
      err.puts("#{prefix}: #{text}")
      status
    end
    private_class_method :unknown, :complain
  end
end
