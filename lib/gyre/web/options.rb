# frozen_string_literal: true

# The flags of `gyre serve` and its help text; a flag for each limit comes from the limits' table. Gyre::Web::CLI calls it.
# It turns words into settings and says what is wrong with them; it prints nothing and reads no file.

require "gyre/cli/flags"
require "gyre/web/config"

module Gyre
  module Web
    # Flags in, settings out.
    class Options
      # Flags that people bring along from Puma and Falcon.
      HINTS = {
        "-w" => :workers, "--workers" => :workers, "-n" => :count, "--count" => :count, "-t" => :threads, "--threads" => :threads,
        "--persistent-timeout" => :persistent_timeout, "--force-shutdown-after" => :force_shutdown_after
      }.transform_values { |name| Settings::FOREIGN.fetch(name).gsub(/write (\w+)/) { "write --#{Regexp.last_match(1).tr("_", "-")}" } }.freeze
      private_constant :HINTS

      # @return [Hash] settings, as {Settings} has them; :config for -C, and :show => :help or :version
      attr_reader :settings

      # @param arguments [Array<String>] what follows `gyre serve`; left as it is
      # @raise [UsageError]
      def initialize(arguments)
        @settings = {}
        rest = flags.read(arguments)
        @settings[:rackup] = rest.shift if rest.any?
        raise UsageError, "only one app can be served; #{rest.first} is one more" if rest.any? && !@settings[:show]
      end

      # @return [String]
      def self.help
        new([]).help
      end

      # @return [String] what --help prints
      def help
        flags.help
      end

      private

      def flags
        @flags ||= Flags.new(<<~TEXT, width: 38, hints: HINTS) { |flags| declare(flags) }
          Serves a Rack app over HTTP/1.1, each request in a fiber of its own.

          Usage: gyre serve [options] [FILE]

          FILE makes the app; it is config.ru unless named. What is not said by a flag is looked up in #{Config::PATH}
          if there is one, where each long name below is a word (keep_alive_timeout 20).
        TEXT
      end

      def declare(flags)
        listening(flags)
        app(flags)
        logs(flags)
        stopping(flags)
        limits(flags)
        flags.separator "\nOthers:"
        flags.on("-h", "--help", "print this text") { @settings[:show] = :help }
        flags.on("-v", "--version", "print Gyre's version") { @settings[:show] = :version }
      end

      def listening(flags)
        flags.separator "\nWhere to listen:"
        flags.on("-b", "--bind ADDRESS", "tcp://host:port, unix:///path, host:port or a port; * is every host;",
                 "may be given several times. Without it: localhost:9292 in development,",
                 "*:9292 in other environments") { |value| (@settings[:bind] ||= []) << checked("--bind", :bind, value) }
        flags.on("-p", "--port PORT", "the port, instead of $PORT or 9292; 0 takes a free one") do |value|
          @settings[:port] = checked("--port", :port, integer("--port", value))
        end
        flags.on("-o", "--host HOST", "the host, instead of localhost or *") { |value| @settings[:host] = checked("--host", :host, value) }
      end

      def app(flags)
        flags.separator "\nThe app:"
        flags.on("-e", "--environment NAME", "what RACK_ENV becomes; by default $APP_ENV, $RACK_ENV, $RAILS_ENV",
                 "or development") { |value| @settings[:environment] = checked("--environment", :environment, value) }
        flags.on("-C", "--config FILE", "configuration file, #{Config::PATH} if there is one; \"-\" for none") do |value|
          @settings[:config] = value
        end
      end

      def logs(flags)
        flags.separator "\nLogs:"
        flags.on("--log-format FORMAT", "a line for each request: #{LogFormat::NAMES.join(", ")}; by default common in",
                 "development, none in other environments") { |value| @settings[:log_format] = checked("--log-format", :log_format, value) }
        flags.on("-q", "--quiet", "say nothing but errors, and log requests only with --log-format") { @settings[:quiet] = true }
      end

      def stopping(flags)
        flags.separator "\nStopping (INT or TERM; a second one stops at once):"
        flags.on("--shutdown-timeout SECONDS", "what running requests get to finish (#{Settings::SHUTDOWN_TIMEOUT_S})") do |value|
          @settings[:shutdown_timeout] = checked("--shutdown-timeout", :shutdown_timeout, number("--shutdown-timeout", value))
        end
        flags.on("--pidfile FILE", "holds the process id while the server runs") do |value|
          @settings[:pidfile] = checked("--pidfile", :pidfile, value)
        end
      end

      def limits(flags)
        flags.separator "\nLimits (BYTES may end in k, M or G; SECONDS may be none):"
        Settings.limits.each do |row|
          flag = "--#{Settings.short_name(row).to_s.tr("_", "-")}"
          flags.on("#{flag} #{row.unit.to_s.upcase}", "#{row.meaning} (#{row.default})") do |value|
            (@settings[:limits] ||= {})[row.name] = limit(flag, row, value)
          end
        end
      end

      def limit(flag, row, text)
        Settings.read_limit(row, text)
      rescue ArgumentError => error
        raise UsageError, "#{flag} #{text}: #{error.message}"
      end

      def checked(flag, name, value)
        Settings.check(name, value)
      rescue ArgumentError => error
        raise UsageError, "#{flag}: #{error.message}"
      end

      def number(flag, text)
        text.match?(/\A\d+\z/) ? text.to_i : Float(text)
      rescue ArgumentError
        raise UsageError, "#{flag} #{text}: must be a number of seconds"
      end

      def integer(flag, text)
        Integer(text, 10)
      rescue ArgumentError
        raise UsageError, "#{flag} #{text}: must be a whole number"
      end
    end
  end
end
