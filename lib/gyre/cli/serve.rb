# frozen_string_literal: true

# `gyre serve`: runs a Gyre::Web::Server from flags and configuration file.

require "etc"
require "gyre/cli"
require "gyre/cli/flags"
require "gyre/cli/listen_errors"
require "gyre/cli/process/absent_steps"
require "gyre/cli/process/pidfile"
require "gyre/cli/process/handover"
require "gyre/cli/serve/rackup_file"
require "gyre/cli/serve/warnings"
require "gyre/cli/state_file"
require "gyre/http/files/root"
require "gyre/signals"
require "gyre/cluster/mold"
require "gyre/cluster/program"
require "gyre/web/config"
require "gyre/web/frameworks/thread_state"
require "gyre/web/server_log"

module Gyre
  module CLI
    class Serve < Command
      BANNER = <<~TEXT
        Serves a Rack app over HTTP/1.1 and HTTP/2, each request in a fiber of its own.

        Usage: gyre serve [options] [FILE]

        FILE makes the app (config.ru). Settings without a flag are read from
        #{Web::Config::PATH} if there is one; each long name below is a word there
        (keep_alive_timeout 20).
      TEXT
      HINTS = {
        "-n" => "count", "-t" => "threads", "-f" => "fork_worker", "-I" => "include", "-R" => "restart_cmd", "-s" => "silent", "-S" => "state_path",
        **Web::SETTINGS.foreign.keys.to_h { |name| ["--#{name.tr("_", "-")}", name] }
      }.transform_values { |name| Web::SETTINGS.foreign.fetch(name).gsub(/write (\w+)/) { "write --#{$1.tr("_", "-")}" } }.freeze
      # Solid Queue's program, which runs if the variable of its Puma plugin is set.
      SOLID_QUEUE = %w[bin/jobs].freeze
      ENVIRONMENT_VARIABLES = %w[APP_ENV RACK_ENV RAILS_ENV].freeze
      # Rails' static files, which the server sends itself except in these environments.
      PUBLIC = Web::Folder.parse("public?immutable").freeze
      TRYING = %w[development test].freeze
      LISTENING = %i[bind host port].freeze
      HTTPS = %r{\A(?:ssl|https)://}
      # Addresses of a server with ACME, whose ports variables may change.
      PORTS = { "tcp://*:" => ["HTTP_PORT", 80], "ssl://*:" => ["HTTPS_PORT", 443] }.freeze
      NEEDS_WORKERS = "needs workers: start the server with --workers 1 or more"
      # Thruster's variables for its cache.
      CACHE = { "CACHE_SIZE" => :cache, "MAX_CACHE_ITEM_SIZE" => :cache_item_limit }.freeze

      attr_reader :settings # values of the flags by the names of Web::SETTINGS

      def initialize(**streams)
        super
        @settings = {}
      end

      def flags
        Flags.new(BANNER, hints: HINTS, help: ["-h", "--help"]) do |flags|
          flags.table(Web::SETTINGS, @settings)
          flags.separator "\nOthers:"
          flags.on("-C", "--config FILE", "configuration file (#{Web::Config::PATH} if it exists); - for none") { |value| @config = value }
          flags.on("--check", "only report mistakes in build, flags, configuration and gems; does not load the app") { @check = true }
        end
      end

      def call(words)
        refuse_words(words.drop(1))
        @settings[:rackup] = words.first if words.any?
        return become_mold if Cluster::Mold.asked?

        @handover = Handover.receive
        @check ? check : serve(merged)
      rescue Web::ConfigError => error
        raise StartError, error.message
      end

      private

      # Returns the configuration file's settings, overridden by flags. The file's faults end the
      # start; --check records them.
      def merged
        path = @config || (Web::Config::PATH if File.file?(Web::Config::PATH))
        with_flags(path.nil? || path == "-" ? {} : Web::Config.load(path))
      rescue Web::ConfigError => error
        noting { raise error }
        with_flags(error.settings)
      end

      def with_flags(settings)
        settings = Web::Config.merge(settings, @settings)
        settings = { static: [PUBLIC] }.merge(settings) if rails? && !TRYING.include?(environment(settings))
        settings = { beside: SOLID_QUEUE }.merge(settings) unless ENV["SOLID_QUEUE_IN_PUMA"].to_s.empty?
        cache = CACHE.to_h { |variable, name| [name, from_environment(variable, name)] }
        with_certificates(cache.compact.merge(settings))
      end

      # Completes settings of ACME from the environment, whose variables are Thruster's. TLS_DOMAIN
      # is not for a server behind Thruster, which names a port.
      def with_certificates(settings)
        listens = settings.slice(*LISTENING).any?
        alone = !listens && !settings[:tls] && ENV["PORT"].to_s.empty?
        settings = { acme: (from_environment("TLS_DOMAIN", :acme) if alone) }.compact.merge(settings)
        return settings.except(:acme_folder) unless settings[:acme]
        raise UsageError, "acme: leave out tls, which takes a certificate of development" if settings[:tls] == true
        raise UsageError, "acme: none of the addresses is for https: add -b 'ssl://*:443'" if listens && Array(settings[:bind]).grep(HTTPS).empty?

        if !settings[:dns_challenge] && (wildcard = settings[:acme].find { |name| name.include?("*") })
          raise UsageError, "acme: #{wildcard} needs dns_challenge in the configuration file: authorities validate wildcards by DNS only"
        end

        require "gyre/web/acme/keeper"
        binding = ENV.values_at("EAB_KID", "EAB_HMAC_KEY")
        bind = PORTS.map { |url, (name, port)| "#{url}#{from_environment(name, :port) || port}" } unless listens
        directory = from_environment("ACME_DIRECTORY", :acme_directory) || Web::SETTINGS[:acme_directory].default
        settings = { https_redirect: true, bind: bind, acme_directory: directory, acme_folder: Web::ACME::Store.folder(settings[:user]),
                     acme_eab: (binding.join(":") if binding.all?) }.compact.merge(settings)
        store = Web::ACME::Store.new(*settings.values_at(:acme, :acme_folder, :acme_directory, :acme_account_key))
        settings.merge(certificates: store, tls: [*settings[:tls], *(store.certificates unless @check)])
      end

      def rails? = File.file?("config/application.rb") && File.directory?(PUBLIC.path)

      def rackup(settings) = settings.fetch(:rackup, RackupFile::PATH)

      def serve(settings)
        environment = choose_environment(settings)
        @out.sync = true # what the app prints is to be seen at once, also through a pipe
        Warnings.install
        count = count(settings)
        examine(settings, count)
        CLI.raise_descriptor_limit
        return serve_with_workers(settings, environment, count) if count.positive? || @handover

        serve_alone(settings, environment)
        DONE
      end

      # Finds mistakes before the app is loaded and workers start.
      def examine(settings, count)
        noting { check_programs(settings, count) } if count
        %i[static sendfile].each { |name| settings.fetch(name, []).each { |folder| noting { check_folder(name, folder) } } }
        noting { check_writable(:access_log, settings[:access_log]) } if settings[:access_log]
        noting { check_lasting(settings) } if settings[:certificates] && !@handover
      end

      def check_programs(settings, count)
        commands = settings.fetch(:beside, [])
        raise StartError, "beside: #{commands.first} needs workers, which are 0: take 1 or more" if commands.any? && count.zero?

        missing = commands.filter_map { |command| Cluster::Program.missing(command) }.first or return
        raise StartError, "beside: there is no program #{missing}"
      end

      # Authorities issue few certificates of a name in a week.
      def check_lasting(settings)
        kind = settings[:certificates].fleeting or return
        text = "acme_folder: #{settings[:acme_folder]} is on #{kind} and ends with the container or machine; each start would then order again, " \
               "until the authority refuses. Mount a volume there, or name another folder"
        @check ? raise(StartError, text) : log(settings).error(text)
      end

      def check_folder(name, folder)
        HTTP::Files::Root.new(folder.path, **folder.options).close
      rescue ArgumentError => error
        raise StartError, "#{name}: #{error.message}"
      end

      def check_makeable(path)
        path = File.dirname(path) until File.exist?(path)
        reason = File.directory?(path) ? ("this user may not write in" unless File.writable?(path)) : "there is a file in place of the folder"
        raise StartError, "acme_folder: #{reason} #{path}. Name another folder with --acme-folder" if reason
      end

      def check_writable(name, path)
        path = File.expand_path(path)
        folder = File.dirname(path)
        flag = Web::SETTINGS[name].flag
        raise StartError, "#{name}: there is no folder #{folder}. Create it, or name another file with #{flag}" unless File.directory?(folder)
        return if File.writable?(File.exist?(path) ? path : folder)

        raise StartError, "#{name}: this user may not write #{File.exist?(path) ? path : "in #{folder}"}. Name another file with #{flag}"
      end

      # Serves in this process. If --user or --group is set, opens sockets and changes the user
      # before it loads the app; otherwise loads the app first, to find mistakes before it listens.
      def serve_alone(settings, environment)
        require "gyre/cli/process/service_manager"
        require "gyre/cli/process/holdings"
        log = log(settings)
        manager = ServiceManager.new
        own = settings.slice(:bind, :host, :port, :pidfile, :state, :user, :group, :acme_folder)
        @holdings = Holdings.new(own, endpoints: endpoints(settings, environment), log: log, commanded: settings.key?(:state))
        server = explaining(settings) do
          early = @holdings.drops_rights?
          @holdings.open if early
          app = load_app(settings)
          @holdings.open unless early
          settings[:certificates]&.prepare(log)
          server(app, settings, environment, log, listeners: @holdings.listeners, manager: manager).listen
        end
        server.run do
          serving_alone(server, environment, log, manager)
          keep_certificates(settings, server, log) if settings[:certificates]
        end
      ensure
        @holdings&.close
      end

      def keep_certificates(settings, server, log)
        Web::ACME::Keeper.new(settings, log: log, plain: !server.endpoints.all?(&:tls)) { server.reload_tls }.start(Task.current)
      end

      def serving_alone(server, environment, log, manager)
        control = Web::ControlApp.new(server, status: -> { status_alone(server) }, commands: commands_alone(server))
        Web::ControlServer.new(control, listeners: @holdings.sets[:control].listeners, log: log).serve
        AbsentSteps.report(Web::Lifetime, NEEDS_WORKERS) { |text| log.info(text) }
        manager.attend(Task.current) do
          stats = server.stats
          "#{stats[:running]} requests running, #{stats[:requests]} served, #{stats[:connections]} connections"
        end
        log.info(Web::Banner.text(server, environment))
        manager.ready
      end

      def commands_alone(server)
        require "gyre/web/control/profile"
        absent = %w[/rolling-restart /restart /renew].to_h { |path| [path, -> { NEEDS_WORKERS }] }
        Web::ControlResult.commands("/stop" => -> { server.stop && nil }, "/reload" => -> { server.reload && nil }, **absent)
                          .merge!("/profile" => Web::ControlProfile.alone)
      end

      def status_alone(server)
        snapshot = server.snapshot
        worker = { name: "0", pid: Process.pid, phase: "serving", generation: 1, age_s: snapshot["uptime_s"],
                   resident_bytes: snapshot["memory_bytes"], snapshot: snapshot }
        { pid: Process.pid, version: VERSION, urls: server.urls, count: 0, workers: [worker] }
      end

      # Loads the web server after the app, so that the app's mistakes are reported sooner.
      def load_app(settings)
        RackupFile.load(rackup(settings)).tap do
          require "gyre/web"
          CLI.require_native("HTTP")
        end
      end

      def serve_with_workers(settings, environment, count)
        require "gyre/cli/serve/workers"
        CLI.require_native("HTTP")
        explaining(settings) do
          ServeWorkers.new(settings, environment, [count, 1].max, endpoints: endpoints(settings, environment), log: log(settings),
                                                                  handover: @handover).call
        end
      end

      # Loads the app and forks the workers; reports faults to the supervisor.
      def become_mold
        faults = [UsageError, StartError, SocketError, SystemCallError, Web::ConfigError]
        Cluster::Mold.become(*faults) { |*given| load_mold(*given, merged) } ? DONE : FAILED
      end

      def load_mold(link, inherited, secrets, settings)
        environment = choose_environment(settings)
        @out.sync = true
        Warnings.install
        app = load_app(settings)
        require "gyre/cluster/worker"
        sockets = Cluster::Sockets.new
        TLS::TicketKeys.adopt(secrets) # the workers inherit them
        sockets.open(endpoints(settings, environment), inherited: inherited, bind: false).each { |socket| sockets.adopt(socket) }
        check_certificates(settings, sockets.listeners.map(&:endpoint))
        Web::ThreadState.apply(log(settings)) # the workers print no notices
        Web::DatabasePool.apply(HTTP::Limits.new, log(settings), place: "in each worker") unless settings.key?(:requests_limit)
        log = Web::ServerLog.new(errors: @err)
        hooks = Cluster::Hooks.new(settings)
        HTTP::NativeAcceptor.map_shares # the workers know of each other
        Cluster::Mold.new(link, hooks) do |index, own|
          Cluster::Worker.new(index, own, hooks, log) do |options|
            HTTP::NativeAcceptor.place = index - 1
            server(app, settings, environment, log, listeners: sockets.listeners, metrics: [], **options)
          end.run
        end
      end

      # Reports all faults of build, flags, configuration, bundle and files that settings name.
      # Before a hot restart, also rehearses the rest of a start.
      def check
        @faults = []
        settings = noting { merged } || @settings
        environment = choose_environment(settings)
        noting { CLI.require_native("HTTP") }
        noting { check_certificates(settings, endpoints(settings, environment)) }
        workers = noting { count(settings) }
        noting { RackupFile.check(rackup(settings)) }
        examine(settings, workers)
        noting { check_process(settings) }
        @faults.concat(Web::ThreadState.faults) unless @handover
        raise StartError, @faults.join("\n") if @faults.any?

        serve_with_workers(settings, environment, workers) if @handover
        @out.puts("configuration OK")
        DONE
      end

      # Checks user, group and files; if the user is to change, only root can check them.
      def check_process(settings)
        return unless settings.slice(:user, :group).empty? || Process.euid.zero?

        require "gyre/cli/process/privileges"
        Privileges.new(*settings.values_at(:user, :group))
        settings.slice(:pidfile, :state).each { |name, path| check_writable(name, path) }
        check_makeable(settings[:acme_folder]) if settings[:acme_folder]
      end

      # Raises StartError for a faulty certificate, before workers start or restart.
      def check_certificates(settings, endpoints)
        return if settings[:tls] == [] # a check before the first certificate by ACME
        return unless settings[:tls] || endpoints.any?(&:tls)

        require "gyre/web/tls_contexts"
        contexts = Web::TLSContexts.new(settings[:tls], log: Web::ServerLog.new(errors: @err))
        made = contexts.contexts(endpoints)
        contexts.warn(made.values) unless @check # else each worker would
      end

      # Returns the number of workers; at 0 this process serves.
      def count(settings)
        value = settings[:workers] || from_environment("WEB_CONCURRENCY", :workers) || (settings.key?(:beside) ? 1 : 0)
        value == "auto" ? Processors.available : value
      end

      # Reads a variable that Puma's users and many platforms set.
      def from_environment(variable, name)
        text = ENV[variable].to_s
        row = Web::SETTINGS[name]
        row.check(row.list ? text.split(/\s*,\s*/) : text) unless text.empty?
      rescue ArgumentError => error
        raise UsageError, "#{variable}=#{text} in the environment: #{error.message}"
      end

      def log(settings) = Web::ServerLog.new(notices: (@out unless settings[:quiet]), errors: @err)

      def endpoints(settings, environment)
        Web::Addresses.listen(settings, environment, default_port: from_environment("PORT", :port) || Web::Addresses::DEFAULT_PORT)
      end

      def environment(settings) = settings[:environment] || ENV.values_at(*ENVIRONMENT_VARIABLES).find { |name| !name.to_s.empty? } || "development"

      def choose_environment(settings) = ENV["RACK_ENV"] = environment(settings)

      def server(app, settings, environment, log, **options)
        Web::Server.new(
          app, watchdog: environment == "development", **settings.slice(:tls, *Web::SERVER_SETTINGS.names),
               log_format: settings[:log_format] || log_format(settings, environment), limits: settings.slice(*HTTP::Limits::TABLE.names),
               out: @out, log: log, abandon: method(:abandon), acme: settings[:certificates], **options
        )
      end

      # Logs all requests in development; elsewhere the app or a proxy usually logs them.
      def log_format(settings, environment) = settings[:access_log] || (environment == "development" && !settings[:quiet]) ? "common" : "none"

      def explaining(settings)
        yield
      rescue SystemCallError => error
        flag = flag_of(settings, error.message)
        raise StartError, ListenErrors.explain(error, bind: flag || "--bind", port: flag || "--port", host: flag || "--host")
      end

      # Returns the flag that set the address; nil if port, host or defaults set it.
      def flag_of(settings, tried)
        named = { "--state" => [(StateFile.new(settings[:state]).endpoint if settings[:state])].compact,
                  "--metrics" => Array(settings[:metrics]).map { |address| Web::ControlServer.endpoint(address) },
                  "--bind" => Array(settings[:bind]).map { |address| Web::Addresses.endpoint(address) } }
        named.find { |_, endpoints| endpoints.any? { |endpoint| tried.end_with?(endpoint.path || ":#{endpoint.port}") } }&.first
      end

      # Ends the process without waiting for requests, but removes its files.
      def abandon
        @holdings&.close
        exit!(FAILED)
      end
    end

    # Counts processors for `--workers auto`: on Linux, at most those that the process's affinity
    # and its control group's quota allow.
    module Processors
      GROUPS = "/sys/fs/cgroup"

      module_function

      # `groups`: mount point of cgroups(7), version 2; `mine`: file that names this process's
      # group.
      def available(groups: GROUPS, mine: "/proc/self/cgroup") = [Etc.nprocessors, quota(groups, mine)&.ceil].compact.min.clamp(1, nil)

      # Returns the lowest quota, in processors, of this group and those above it, or nil. In a
      # container `mine` may have the host's path, while this group is the root of `groups`.
      def quota(groups, mine)
        require "pathname"
        Pathname.new(File.read(mine)[/^0::(.*)/, 1].to_s).ascend.filter_map { |group| limit("#{groups}#{group}/cpu.max") }.min
      rescue SystemCallError
        nil # not Linux
      end

      def limit(path)
        quota, period = File.read(path).split.map(&:to_f)
        quota / period if quota&.positive? && period&.positive?
      rescue SystemCallError
        nil # no such group or controller
      end
    end
  end
end
