# frozen_string_literal: true

# The flags of `gyre log`: Analogger's, with long forms, and a few of ours. Gyre::LogCommand::Serve reads them over the
# configuration file. It prints nothing and opens nothing.

require "gyre/log/configuration"
require "gyre/cli/flags"

module Gyre
  module LogCommand
    # Flags in, settings out.
    class ServeOptions
      BANNER = <<~TEXT
        Collects log messages from other programs and writes them to files.

        Usage: gyre log [serve] [options]
               gyre log send SERVICE SEVERITY [MESSAGE]
               gyre log tail [SERVICE]
               gyre log status
               gyre log reopen

        Without a configuration it listens on 127.0.0.1:6766 and writes to ./log.
        A flag wins over the file. Analogger's configurations and command lines work
        as they are.
      TEXT

      # @return [Hash{Symbol => Object}] what the flags say, by the names of Gyre::Log::Configuration::Keys
      attr_reader :values
      # @return [String, nil] the configuration file
      attr_reader :path
      # @return [Symbol, nil] :help, :version or :check
      attr_reader :show
      # @return [Array<String>]
      attr_reader :notices

      # @param arguments [Array<String>]
      # @raise [UsageError]
      def initialize(arguments)
        @values = {}
        @notices = []
        @flags = Flags.new(BANNER) { |flags| declare(flags) }
        rest = @flags.read(attach_dashes(arguments))
        return if rest.empty? || @show == :help

        raise UsageError, "#{rest.first}: nothing is expected there; flags begin with a dash"
      end

      # @return [String]
      def help
        @flags.help
      end

      private

      # Ruby 3.1's OptionParser takes a lone dash for a word of its own, not for the argument of what stands before.
      def attach_dashes(arguments)
        arguments.each_with_object([]) do |word, words|
          word == "-" && ["-d", "--default"].include?(words.last) ? words[-1] = words.last == "-d" ? "-d-" : "--default=-" : words << word
        end
      end

      # In Analogger every argument may be left out.
      def declare(flags)
        flags.separator "\nWhere to listen:"
        set(flags, "-p", "--port [PORT]", "the port (6766); 0 takes a free one", :port)
        flags.on("-h", "--host [HOST]", "the host (127.0.0.1); -h alone prints this text") do |value|
          value ? check("-h", :host, value) : @show = :help
        end
        flags.on("-b", "--bind ADDRESS", "instead of host and port: tcp://host:port or",
                 "unix:///path; may be given several times") do |value|
          (@values[:bind] ||= []).concat(checked("--bind", :bind, value))
        end
        who_may(flags)
        where(flags)
        process(flags)
        others(flags)
      end

      def who_may(flags)
        flags.separator "\nWho may:"
        flags.on("-k", "--key [KEY]", "what clients must know; better in GYRE_LOG_KEY,",
                 "for others see it here (ps)") do |value|
          next unless value

          @notices << "the key is on the command line, where every user of this machine can see it (ps): " \
                      "put it into GYRE_LOG_KEY, or into a file and that into key_file"
          @values[:key] = value
        end
        set(flags, nil, "--key-file FILE", "the file that holds the key", :key_file)
        flags.on("-r", "--controlkey [KEY]", "does nothing, as in Analogger") { nil }
      end

      def where(flags)
        flags.separator "\nWhere to write:"
        flags.on("-c", "--config FILE", "the configuration, YAML: Analogger's or more") { |value| @path = value }
        set(flags, "-d", "--default [PATH]", "for services without a log of their own; - is", "standard output", :default_log)
        set(flags, "-i", "--interval [SECONDS]", "between writes (1)", :interval)
        set(flags, "-s", "--syncinterval [SECONDS]", "between syncs (60); 0 never", :syncinterval)
      end

      def process(flags)
        flags.separator "\nThe process:"
        flags.on("-x", "--daemonize", "leave the terminal") { @values[:daemonize] = true }
        flags.on("-w", "--writepid [FILE]", "holds the process id while the server runs") do |value|
          check("--writepid", :pidfile, value || "analogger.pid")
        end
      end

      def others(flags)
        flags.separator "\nOthers:"
        flags.on("--check", "only say what is wrong with the configuration") { @show = :check }
        flags.on("-v", "--version", "print Gyre's version") { @show = :version }
        flags.on("--help", "print this text") { @show = :help }
        flags.separator "\nSignals: INT and TERM write everything and end. HUP reopens the files." \
                        "\n         USR2 restarts the program and refuses no connection meanwhile."
      end

      def set(flags, short, long, *meaning, key)
        flags.on(*short, long, *meaning) { |value| check(long[/\A[\w-]+/], key, value) if value }
      end

      def check(flag, key, value)
        @values[key] = checked(flag, key, value)
      end

      def checked(flag, key, value)
        Log::Configuration.check(key, value, places: true)
      rescue ArgumentError => error
        raise UsageError, "#{flag}: #{error.message}"
      end
    end
  end
end
