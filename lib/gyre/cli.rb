# frozen_string_literal: true

# The command `gyre`: runs a subcommand for exe/gyre. Reports mistakes as plain lines on standard
# error. cli/ also has parts that subcommands share: flags, pidfile, restart, listen errors.

require "gyre/errors"
require "gyre/version"

module Gyre
  # The command line.
  module CLI
    DONE = 0          # done, or stopped on request, also by INT or TERM
    FAILED = 1        # could not start, broke, or was not acknowledged
    MISUSED = 2       # the command line makes no sense
    INTERRUPTED = 130 # INT before anything ran: 128 + 2, as shells have it

    # The environment of the start, which restarts begin with (Restart.environment).
    ENVIRONMENT = ENV.to_h.freeze

    # The descriptor limit is raised to this at most: some programs close every possible descriptor.
    DESCRIPTORS_LIMIT = 1 << 20

    # A subcommand, its file and its class.
    Entry = Struct.new(:name, :summary, :path, :constant) do
      # Returns a Command class, or a module whose `start` reads the arguments itself.
      def load
        require path
        constant.split("::").reduce(CLI) { |scope, name| scope.const_get(name, false) }
      end
    end

    TABLE = [
      Entry.new("serve", "Serves a Rack app over HTTP", "gyre/cli/serve", "Serve"),
      Entry.new("top", "Shows a running server's activity", "gyre/cli/top", "Top"),
      Entry.new("ctl", "Asks and commands a running server", "gyre/cli/ctl", "Ctl"),
      Entry.new("compress", "Compresses static files ahead of time", "gyre/cli/compress", "Compress"),
      Entry.new("profile", "Shows where a running server spends its CPU time", "gyre/cli/profile", "ProfileCommand"),
      Entry.new("dns", "Serves DNS from zone files and rules; asks name servers", "gyre/cli/dns", "DNS"),
      Entry.new("log", "Collects log messages; sends, follows and watches them", "gyre/cli/log", "Log"),
      Entry.new("em", "Runs a program of EventMachine", "gyre/cli/em", "EM")
    ].freeze

    # Subcommands of other programs, with Gyre's names for them.
    FOREIGN = %w[server start s up run rackup].to_h { |name| [name, "serve"] }.merge("logger" => "log").freeze

    HELP = <<~TEXT
      Gyre: event-driven I/O for Ruby.

      Usage: gyre COMMAND [arguments]
             gyre COMMAND --help

      Commands:
      #{TABLE.map { |entry| format("  %-8s %s", entry.name, entry.summary) }.join("\n")}

      Others:
        -h, --help     print this text
        -v, --version  print Gyre's version, and what this build can do
    TEXT

    # A subcommand. Subclasses define `flags`, and `call`, which takes the words that are not flags
    # and returns the exit status.
    class Command
      def initialize(out: $stdout, err: $stderr, input: $stdin)
        @out = out
        @err = err
        @input = input
      end

      private

      def refuse_words(words)
        raise UsageError, "unexpected argument #{words.first}" if words.any?
      end

      # Records a fault for --check; otherwise the first fault ends the start.
      def noting
        yield
      rescue Error => error
        raise unless @check

        (@faults ||= []) << error.message
        nil
      end
    end

    class << self
      # Takes the words after `gyre`; returns the exit status. As process 1, runs in a child.
      def start(arguments, out: $stdout, err: $stderr, input: $stdin)
        require "gyre/cli/process/first"
        status = First.run and return status

        name, *rest = arguments
        name, *rest = *rest, "--help" if name == "help" && rest.any?
        case name
        when nil, "-h", "--help", "help" then out.puts(HELP)
        when "-v", "--version"           then print_build(out)
        else
          entry = TABLE.find { |each| each.name == name } or return unknown("gyre", name, TABLE.map(&:name), err, FOREIGN)
          part = entry.load
          return part.start(rest, out: out, err: err, input: input) unless part.is_a?(Class)

          return run("gyre #{name}", part.new(out: out, err: err, input: input), rest, out: out, err: err)
        end
        DONE
      end

      # Returns the exit status.
      def run(name, command, arguments, out: $stdout, err: $stderr)
        flags = command.flags
        words = flags.read(arguments)
        case flags.asked
        when :help    then out.puts(flags.help)
        when :version then out.puts("gyre #{VERSION}")
        else return command.call(words)
        end
        DONE
      rescue UsageError => error
        complain(err, name, "#{error.message}\nRun `#{name} --help` for the flags.", MISUSED)
      rescue StartError, SocketError => error
        complain(err, name, error.message, FAILED)
      rescue Interrupt
        INTERRUPTED
      end

      # Reports an unknown subcommand. `foreign`: other programs' names => Gyre's.
      def unknown(program, name, known, err, foreign = {})
        require "gyre/settings"
        hint = foreign.key?(name) ? "did you mean #{foreign[name]}?" : Settings.nearest(name, known) || "known: #{known.join(", ")}."
        complain(err, program, "unknown command #{name}; #{hint} Run `#{program} --help`.", MISUSED)
      end

      # Raises StartError if the extension, or the backend that GYRE_BACKEND names, is missing.
      def require_native(what)
        Loop.backend
        Loop.require_native(what)
      rescue ExtensionRequired => error
        raise StartError, error.message
      rescue ArgumentError, RuntimeError => error
        raise StartError, "GYRE_BACKEND: #{error.message}"
      end

      # Raises the soft limit, usually 1,024, because each connection takes a descriptor.
      def raise_descriptor_limit
        soft, hard = Process.getrlimit(:NOFILE)
        limit = [hard, DESCRIPTORS_LIMIT].min
        Process.setrlimit(:NOFILE, limit, hard) if limit > soft
      rescue SystemCallError, NotImplementedError
        nil # not allowed, or not supported here: the limit stays
      end

      private

      def print_build(out)
        require "gyre/cli/build"
        out.puts(Build.text)
      end

      # Prints the text, which may come from another process, without control characters.
      def complain(err, name, text, status)
        require "gyre/cli/terminal/paint"
        err.puts("#{name}: #{Paint.harmless_lines(text)}")
        status
      end
    end
  end
end
