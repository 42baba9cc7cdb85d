# frozen_string_literal: true

# `gyre serve`: flags and configuration file in, a running server out; a flag for each limit comes
# from the limits' table. It serves nothing itself: Gyre::Web::Server does.

require "gyre/cli"
require "gyre/cli/flags"
require "gyre/cli/listen_errors"
require "gyre/cli/pidfile"
require "gyre/web/config"
require "gyre/web/rackup_file"

module Gyre
  module CLI
    # One start of `gyre serve`.
    class Serve < Command
      BANNER = <<~TEXT
        Serves a Rack app over HTTP/1.1, each request in a fiber of its own.

        Usage: gyre serve [options] [FILE]

        FILE makes the app; it is config.ru unless named. What no flag sets is looked up in #{Web::Config::PATH}
        if there is one, where each long name below is a word (keep_alive_timeout 20).
      TEXT
      # Flags of Puma and Falcon.
      HINTS = {
        "-w" => :workers, "--workers" => :workers, "-n" => :count, "--count" => :count, "-t" => :threads, "--threads" => :threads,
        "--persistent-timeout" => :persistent_timeout, "--force-shutdown-after" => :force_shutdown_after
      }.transform_values { |name| Web::Settings::FOREIGN.fetch(name).gsub(/write (\w+)/) { "write --#{$1.tr("_", "-")}" } }.freeze
      private_constant :HINTS

      # @return [Hash] the values of the flags, as {Gyre::Web::Settings} has them; :config for -C
      attr_reader :settings

      def initialize(**streams)
        super
        @settings = {}
      end

      # (see Command#flags)
      def flags
        Flags.new(BANNER, width: 38, hints: HINTS, help: ["-h", "--help"]) do |flags|
          listening(flags)
          tls(flags)
          app(flags)
          files(flags)
          running(flags)
          limits(flags)
          flags.separator "\nOthers:"
        end
      end

      # (see Command#call)
      def call(words)
        raise UsageError, "only one app can be served; #{words[1]} is one more" if words.size > 1

        @settings[:rackup] = words.first if words.any?
        serve(merged)
        DONE
      rescue Web::ConfigError => error
        raise StartError, error.message
      end

      private

      def listening(flags)
        flags.separator "\nWhere to listen:"
        flags.on("-b", "--bind ADDRESS", "tcp://host:port, ssl://host:port, unix:///path, host:port or a port; * is every host;",
                 "may be given several times. Without it: localhost:9292 in development,",
                 "*:9292 in other environments") { |value| (@settings[:bind] ||= []) << Web::Settings.check(:bind, value) }
        set(flags, :port, "-p", "--port PORT", "the port, instead of $PORT or 9292; 0 takes a free one")
        set(flags, :host, "-o", "--host HOST", "the host, instead of localhost or *")
      end

      def tls(flags)
        flags.separator "\nTLS (addresses as ssl://host:port?cert=PATH&key=PATH; more in docs/serve.md):"
        flags.on("--tls", "https with a self-signed certificate of this machine, for development") { @settings[:tls] = true }
      end

      def app(flags)
        flags.separator "\nThe app:"
        set(flags, :environment, "-e", "--environment NAME", "what RACK_ENV becomes; by default $APP_ENV, $RACK_ENV, $RAILS_ENV",
            "or development")
        flags.on("-C", "--config FILE", "configuration file, #{Web::Config::PATH} if there is one; \"-\" for none") do |value|
          @settings[:config] = value
        end
      end

      def files(flags)
        flags.separator "\nFiles and compression:"
        folder(flags, :static, "--static DIR", "send its files before the app is asked; options behind a question mark,",
               "as in 'public?at=/files&immutable': #{Web::Folder::OPTIONS.keys.map { |name| name.to_s.tr("_", "-") }.join(", ")}")
        folder(flags, :sendfile, "--sendfile DIR", "send its files when the app names them in X-Sendfile")
        flags.on("--compress", "compress responses for clients that take it") { @settings[:compress] = true }
        set(flags, :compress_minimum, "--compress-minimum BYTES", "the smallest body that is worth it " \
                                                                  "(#{Web::Settings::COMPRESS_MINIMUM_BYTES})")
      end

      def running(flags)
        flags.separator "\nLogs:"
        set(flags, :log_format, "--log-format FORMAT", "a line for each request: #{Web::LogFormat::NAMES.join(", ")}; by default common in",
            "development, none in other environments")
        flags.on("-q", "--quiet", "print nothing but errors, and log requests only with --log-format") { @settings[:quiet] = true }
        flags.separator "\nMetrics:"
        flags.on("--metrics ADDRESS", "where /metrics (Prometheus) and /status (gyre top) are served: a port of this machine,",
                 "host:port or unix:///path; may be given several times") do |value|
          (@settings[:metrics] ||= []) << Web::Settings.check(:metrics, value)
        end
        flags.separator "\nStopping (INT or TERM; a second one stops at once):"
        set(flags, :shutdown_timeout, "--shutdown-timeout SECONDS",
            "what running requests get to finish (#{Web::Settings::SHUTDOWN_TIMEOUT_S})")
        set(flags, :pidfile, "--pidfile FILE", "holds the process id while the server runs")
      end

      def limits(flags)
        flags.separator "\nLimits (BYTES may end in k, M or G; SECONDS may be none):"
        HTTP::Limits::TABLE.each do |row|
          flags.on("#{row.flag} #{row.unit.to_s.upcase}", "#{row.meaning} (#{row.default})") do |value|
            (@settings[:limits] ||= {})[row.name] = row.read(value)
          end
        end
      end

      def folder(flags, name, *words)
        flags.on(*words) { |value| (@settings[name] ||= []) << Web::Settings.check(name, value) }
      end

      def set(flags, name, *words)
        flags.on(*words) { |value| @settings[name] = Web::Settings.check(name, value) }
      end

      # @return [Hash] the settings of the file, and over them those of the flags
      def merged
        path = @settings[:config] || (Web::Config::PATH if File.file?(Web::Config::PATH))
        path.nil? || path == "-" ? @settings : Web::Settings.merge(Web::Config.load(path), @settings)
      end

      def serve(settings)
        environment = choose_environment(settings)
        CLI.raise_descriptor_limit
        @out.sync = true # what the app prints is to be seen at once, also through a pipe
        app = Web::RackupFile.load(settings[:rackup] || Web::RackupFile::PATH)
        require "gyre/web" # after the app: its mistakes are reported sooner
        CLI.require_native("HTTP")
        log = Web::Log.new(notices: (@out unless settings[:quiet]), errors: @err)
        server = listen(app, settings, environment, log)
        @pidfile = Pidfile.new(settings[:pidfile]).write if settings[:pidfile]
        server.run { log.info(Web::Banner.text(server, environment)) }
      ensure
        @pidfile&.remove
      end

      def choose_environment(settings)
        environment = settings[:environment] || ENV.values_at("APP_ENV", "RACK_ENV", "RAILS_ENV").compact.first || "development"
        ENV["RACK_ENV"] = environment
      end

      def listen(app, settings, environment, log)
        Web::Server.new(
          app,
          bind: Web::Settings.endpoints(settings, environment, default_port: default_port),
          tls: settings[:tls],
          limits: settings[:limits] || {},
          log_format: settings[:log_format] || (settings[:quiet] ? "none" : Web::Settings.default_log_format(environment)),
          shutdown_timeout: settings[:shutdown_timeout] || Web::Settings::SHUTDOWN_TIMEOUT_S,
          **settings.slice(:static, :sendfile, :compress, :compress_minimum),
          metrics: settings[:metrics] || [],
          out: @out,
          log: log,
          abandon: method(:abandon)
        ).listen
      rescue SystemCallError => error
        flags = settings[:bind] ? { port: "--bind", host: "--bind" } : { port: "--port", host: "--host" }
        raise StartError, ListenErrors.explain(error, **flags)
      end

      # As many platforms hand it to the programs they start.
      def default_port
        text = ENV["PORT"].to_s
        text.empty? ? Web::Settings::DEFAULT_PORT : Web::Settings.check(:port, text)
      rescue ArgumentError
        raise UsageError, "PORT=#{text} in the environment: must be a port, 0 to 65535"
      end

      # Everything that a normal end does is done by then, but for what would wait for the requests.
      def abandon
        @pidfile&.remove
        exit!(FAILED)
      end
    end
  end
end
