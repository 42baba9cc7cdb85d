# frozen_string_literal: true

# `gyre serve`: flags and configuration file in, a running server out; a flag for each limit comes
# from the limits' table. It serves nothing itself: Gyre::Web::Server does.

require "gyre/cli"
require "gyre/cli/flags"
require "gyre/cli/listen_errors"
require "gyre/cli/pidfile"
require "gyre/cli/processors"
require "gyre/web/cluster/handover"
require "gyre/web/cluster/mold"
require "gyre/web/cluster/program"
require "gyre/web/config"
require "gyre/web/log"
require "gyre/web/rackup_file"
require "gyre/web/thread_state"
require "gyre/web/warnings"

module Gyre
  module CLI
    # One start of `gyre serve`.
    class Serve < Command
      BANNER = <<~TEXT
        Serves a Rack app over HTTP/1.1 and HTTP/2, each request in a fiber of its own.

        Usage: gyre serve [options] [FILE]

        FILE makes the app; it is config.ru unless named. What no flag sets is looked up in #{Web::Config::PATH}
        if there is one, where each long name below is a word (keep_alive_timeout 20).
      TEXT
      # Flags of Puma and Falcon.
      HINTS = {
        "-n" => :count, "-t" => :threads, "-f" => :fork_worker, "-I" => :include, "-R" => :restart_cmd, "-s" => :silent, "-S" => :state_path,
        **Web::Settings::FOREIGN.keys.to_h { |name| ["--#{name.to_s.tr("_", "-")}", name] }
      }.transform_values { |name| Web::Settings::FOREIGN.fetch(name).gsub(/write (\w+)/) { "write --#{$1.tr("_", "-")}" } }.freeze
      # The program of Solid Queue, which this variable of its plugin for Puma asks for.
      SOLID_QUEUE = %w[bin/jobs].freeze
      private_constant :HINTS, :SOLID_QUEUE

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
          workers(flags)
          limits(flags)
          flags.separator "\nOthers:"
          flags.on("--check", "only report what is wrong with build, flags, configuration and gems; the app is not loaded") { @check = true }
        end
      end

      # (see Command#call)
      def call(words)
        raise UsageError, "only one app can be served; #{words[1]} is one more" if words.size > 1

        @settings[:rackup] = words.first if words.any?
        return become_mold if Web::Cluster::Mold.asked?

        @handover = Web::Cluster::Handover.receive
        @check ? check : serve(merged)
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
        set(flags, :log_format, "--log-format FORMAT", "a line for each request: #{Web::LogFormat::NAMES.join(", ")}, or directives as",
            "'%h %t \"%r\" %>s %b %D'; by default common in development, none elsewhere")
        set(flags, :access_log, "--access-log FILE", "where they go instead of standard output; HUP opens it again")
        flags.on("--request-id", "give each request an X-Request-Id, the client's if it has a valid one") { @settings[:request_id] = true }
        flags.on("-q", "--quiet", "print nothing but errors, and log requests only with --log-format") { @settings[:quiet] = true }
        flags.separator "\nProxies in front:"
        flags.on("--trusted-proxy RANGE", "an address, 10.0.0.0/8, private or loopback, whose X-Forwarded headers are believed;",
                 "may be given several times") do |value|
          (@settings[:trusted_proxy] ||= []) << Web::Settings.check(:trusted_proxy, value)
        end
        flags.on("--forwarded-header NAME", "a header that they write, instead of #{Web::TrustedProxies::USUAL.join(" and ")};",
                 "may be given several times: #{Web::TrustedProxies::HEADERS.join(", ")}") do |value|
          (@settings[:forwarded_header] ||= []) << Web::Settings.check(:forwarded_header, value)
        end
        flags.separator "\nOptional parts of HTTP:"
        flags.on("--early-hints", "let the app send 103 Early Hints; nginx before 1.29 takes them for the response") do
          @settings[:early_hints] = true
        end
        flags.on("--extended-connect", "tell HTTP/2 clients that CONNECT opens WebSockets (RFC 8441), which the app has to serve") do
          @settings[:extended_connect] = true
        end
        flags.separator "\nMetrics:"
        flags.on("--metrics ADDRESS", "where /metrics (Prometheus) and /status (gyre top) are served: a port of this machine,",
                 "host:port or unix:///path; may be given several times") do |value|
          (@settings[:metrics] ||= []) << Web::Settings.check(:metrics, value)
        end
        flags.separator "\nLoad (see also requests-limit, queue-limit and request-timeout below):"
        set(flags, :health_path, "--health-path PATH", "the server answers it by itself with 200, also when all places are taken")
        set(flags, :ready_path, "--ready-path PATH", "the same, but 503 while it stops and while its queue is full")
        set(flags, :cancel_when_client_gone, "--cancel-when-client-gone WHEN", "cancel a request whose client has left: none; reset, of its",
            "connection; closed, also when it has ended its side (none)")
        flags.on("--watchdog", "log requests that hold up all others, with the place in the code, as in development") do
          @settings[:watchdog] = true
        end
        flags.on("--no-watchdog", "do not, also in development") { @settings[:watchdog] = false }
        flags.separator "\nStopping (INT or TERM; a second one stops at once):"
        set(flags, :shutdown_timeout, "--shutdown-timeout SECONDS",
            "what running requests get to finish (#{Web::Settings::SHUTDOWN_TIMEOUT_S})")
        set(flags, :pidfile, "--pidfile FILE", "holds the process id while the server runs")
      end

      def workers(flags)
        flags.separator "\nWorkers (the app is loaded once; they are forks of the process that has it):"
        set(flags, :workers, "-w", "--workers COUNT", "processes that serve; auto: one for each processor; 0 (or without it and",
            "without $WEB_CONCURRENCY): one process does it all")
        set(flags, :worker_timeout, "--worker-timeout SECONDS",
            "replace a worker that gives no sign for so long (#{Web::Settings::WORKER_TIMEOUT_S})")
        set(flags, :worker_boot_timeout, "--worker-boot-timeout SECONDS",
            "what a worker gets from its fork until it serves, and the app to be loaded",
            "(#{Web::Settings::WORKER_TIMEOUT_S})")
        set(flags, :worker_memory_limit, "--worker-memory-limit BYTES", "replace a worker that has more resident memory, after its requests")
        flags.on("--beside COMMAND", "a program that runs beside the workers, as bin/jobs, and is started again when it ends;",
                 "may be given several times; $SOLID_QUEUE_IN_PUMA means bin/jobs") do |value|
          (@settings[:beside] ||= []) << Web::Settings.check(:beside, value)
        end
        set(flags, :restart_file, "--restart-file FILE", "restart the workers one after another when it is touched, as tmp/restart.txt",
            "is by bin/rails restart")
        flags.separator "\nThe process:"
        set(flags, :state, "--state FILE", "where gyre ctl and gyre top find the server (with workers: tmp/gyre.state);",
            "its control socket is beside it")
        set(flags, :user, "--user USER", "become this user once the sockets are open")
        set(flags, :group, "--group GROUP", "become this group; by default the user's")
      end

      def limits(flags)
        flags.separator "\nLimits (BYTES may end in k, M or G; SECONDS may be none):"
        HTTP::Limits::TABLE.each do |row|
          flags.on("#{row.flag} #{row.unit.to_s.upcase}", "#{row.meaning} (#{row.default_text})") do |value|
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
        settings = path.nil? || path == "-" ? @settings : Web::Settings.merge(Web::Config.load(path), @settings)
        ENV["SOLID_QUEUE_IN_PUMA"].to_s.empty? ? settings : { beside: SOLID_QUEUE }.merge(settings)
      end

      def rackup(settings) = settings[:rackup] || Web::RackupFile::PATH

      # @return [Integer] the exit status
      def serve(settings)
        environment = choose_environment(settings)
        @out.sync = true # what the app prints is to be seen at once, also through a pipe
        Web::Warnings.install
        count = count(settings)
        check_files(settings)
        check_programs(settings, count)

        CLI.raise_descriptor_limit
        return serve_with_workers(settings, environment, count) if count.positive? || @handover

        serve_alone(settings, environment)
        DONE
      end

      def check_programs(settings, count)
        commands = settings.fetch(:beside, [])
        raise StartError, "beside: #{commands.first} needs workers, which are 0: take 1 or more" if commands.any? && count.zero?

        missing = commands.filter_map { |command| Web::Cluster::Program.missing(command) }.first or return
        raise StartError, "beside: there is no program #{missing}"
      end

      # Before the app is loaded, and before workers are there that could not start.
      def check_files(settings) = faults_of_files(settings).first&.then { |fault| raise StartError, fault }

      # @return [Array<String>]
      def faults_of_files(settings)
        missing = %i[static sendfile].flat_map { |name| settings.fetch(name, []).map { |folder| [name, folder.path] } }
        missing.reject! { |_, path| File.directory?(path) }
        missing.map { |name, path| "#{name}: there is no folder #{File.expand_path(path)}" } + [fault_of_access_log(settings[:access_log])].compact
      end

      def fault_of_access_log(path)
        return if path.nil?

        path = File.expand_path(path)
        folder = File.dirname(path)
        return "access_log: there is no folder #{folder}. Make it first, or name another file with --access-log" unless File.directory?(folder)
        return if File.writable?(File.exist?(path) ? path : folder)

        "access_log: this user may not write #{File.exist?(path) ? path : "in #{folder}"}. Name another file with --access-log"
      end

      def serve_alone(settings, environment)
        require "gyre/cli/serve_alone"
        log = log(settings)
        process = ServeAlone.new(settings, endpoints: endpoints(settings, environment), chosen: chosen?(settings), log: log)
        app = explaining(settings) do
          process.prepare do
            Web::RackupFile.load(rackup(settings)).tap do
              require "gyre/web" # after the app: its mistakes are reported sooner
              CLI.require_native("HTTP")
            end
          end
        end
        @abandoned = process
        server = explaining(settings) { server(app, settings, environment, log, **process.options).listen }
        process.run(server) { log.info(Web::Banner.text(server, environment)) }
      ensure
        process&.close
      end

      def chosen?(settings) = settings.slice(:bind, :host, :port).any?

      def serve_with_workers(settings, environment, count)
        require "gyre/cli/serve_workers"
        CLI.require_native("HTTP")
        explaining(settings) do
          ServeWorkers.new(settings, environment, [count, 1].max, endpoints: endpoints(settings, environment),
                                                                  chosen: chosen?(settings), log: log(settings), handover: @handover).call
        end
      end

      # This process loads the app and forks the workers; what is wrong goes to the supervisor.
      def become_mold
        Web::Cluster::Mold.ignore_signals
        link, inherited = Web::Cluster::Mold.receive
        load_mold(link, inherited, merged).run
        DONE
      rescue UsageError, StartError, SocketError, SystemCallError, Web::ConfigError => error
        link.send({ failed: error.message })
        FAILED
      end

      def load_mold(link, inherited, settings)
        environment = choose_environment(settings)
        @out.sync = true
        Web::Warnings.install
        app = Web::RackupFile.load(rackup(settings))
        require "gyre/web"
        require "gyre/web/cluster/worker"
        CLI.require_native("HTTP")
        sockets = Web::Sockets.new
        TLS::TicketKeys.shared if ENV.key?(TLS::TicketKeys::VARIABLE) # the workers inherit them
        sockets.open(endpoints(settings, environment), inherited: inherited, bind: false).each { |socket| sockets.adopt(socket) }
        check_certificates(settings, sockets.listeners.map(&:endpoint))
        Web::ThreadState.apply(log(settings)) # the workers print no notices
        unless settings[:limits]&.key?(:requests_limit)
          Web::DatabasePool.apply(HTTP::Limits.new, log(settings), place: "in each worker")
        end
        log = Web::Log.new(errors: @err)
        hooks = settings[:hooks] || Web::Cluster::Hooks.new
        HTTP::NativeAcceptor.map_shares # the workers know of each other
        Web::Cluster::Mold.new(link, hooks) do |index, own|
          Web::Cluster::Worker.new(index, own, hooks, log) do |options|
            server(app, settings, environment, log, listeners: sockets.listeners, metrics: [], **options)
          end.run
        end
      end

      # Of the build, the flags, the file and the bundle; the addresses are read as well, and the
      # app's file is looked for. All faults are reported at once. Before a hot restart the rest of
      # a start is tried, too, with the gems that there are.
      def check
        settings = @settings
        environment = workers = file = nil
        steps = [-> { settings = merged and file = rackup(settings) }, -> { environment = choose_environment(settings) },
                 -> { workers = count(settings) }, -> { CLI.require_native("HTTP") },
                 -> { check_certificates(settings, endpoints(settings, environment)) },
                 -> { workers && check_programs(settings, workers) }, -> { file && Web::RackupFile.check(file) }]
        faults = steps.filter_map { |step| fault_of(&step) } + faults_of_files(settings)
        faults += Web::ThreadState.faults unless @handover
        raise StartError, faults.join("\n") if faults.any?

        serve_with_workers(settings, environment, workers) if @handover
        @out.puts("the configuration is right")
        DONE
      end

      def fault_of
        yield && nil
      rescue StartError, UsageError, Web::ConfigError => error
        error.message
      end

      # Before any worker is replaced by one that could not serve.
      def check_certificates(settings, endpoints)
        return unless settings[:tls] || endpoints.any?(&:tls)

        require "gyre/web/tls_contexts"
        contexts = Web::TLSContexts.new(settings[:tls], log: Web::Log.new(errors: @err))
        made = contexts.contexts(contexts.endpoints(endpoints))
        contexts.warn(made.values) unless @check # else each worker would
      end

      # @return [Integer] workers; 0: none, this process serves
      def count(settings)
        value = settings[:workers] || concurrency || (settings.key?(:beside) ? 1 : 0)
        value == "auto" ? Processors.available : value
      end

      # As Puma's users set it, and platforms that start Puma.
      def concurrency
        text = ENV["WEB_CONCURRENCY"].to_s
        Web::Settings.check(:workers, text) unless text.empty?
      rescue ArgumentError => error
        raise UsageError, "WEB_CONCURRENCY=#{text} in the environment: #{error.message}"
      end

      def log(settings)
        require "gyre/web/log"
        Web::Log.new(notices: (@out unless settings[:quiet]), errors: @err)
      end

      # @return [Array<Gyre::Endpoint>] those that speak TLS have its settings
      def endpoints(settings, environment)
        require "gyre/web/tls_contexts"
        addresses = Web::Settings.endpoints(settings, environment, default_port: default_port)
        Web::TLSContexts.new(settings[:tls], log: nil).endpoints(addresses)
      end

      def choose_environment(settings)
        environment = settings[:environment] || ENV.values_at("APP_ENV", "RACK_ENV", "RAILS_ENV").compact.first || "development"
        ENV["RACK_ENV"] = environment
      end

      def server(app, settings, environment, log, **options)
        Web::Server.new(
          app,
          tls: settings[:tls],
          limits: settings[:limits] || {},
          log_format: settings[:log_format] || Web::Settings.default_log_format(environment, settings),
          shutdown_timeout: settings[:shutdown_timeout] || Web::Settings::SHUTDOWN_TIMEOUT_S,
          **settings.slice(:static, :sendfile, :compress, :compress_minimum, :access_log, :request_id, :trusted_proxy, :forwarded_header,
                           :early_hints, :extended_connect, :health_path, :ready_path, :cancel_when_client_gone),
          watchdog: settings.fetch(:watchdog, environment == "development"),
          metrics: settings[:metrics] || [],
          out: @out,
          log: log,
          abandon: method(:abandon),
          **options
        )
      end

      def explaining(settings)
        yield
      rescue SystemCallError => error
        flag = flag_of(settings, error.message)
        raise StartError, ListenErrors.explain(error, bind: flag || "--bind", port: flag || "--port", host: flag || "--host")
      end

      # The setting that the address is from; nil: port and host, or their defaults.
      def flag_of(settings, tried)
        named = { "--metrics" => Array(settings[:metrics]).map { |address| Web::ControlServer.endpoint(address) },
                  "--bind" => Array(settings[:bind]).map { |address| Web::TLSSettings.endpoint(address) } }
        named.find { |_, endpoints| endpoints.any? { |endpoint| tried.end_with?(endpoint.path || ":#{endpoint.port}") } }&.first
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
        @abandoned&.close
        exit!(FAILED)
      end
    end
  end
end
