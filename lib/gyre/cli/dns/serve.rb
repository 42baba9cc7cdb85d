# frozen_string_literal: true

# `gyre dns`: runs a Gyre::DNS::Server from a rules file and flags, in this process or in workers.

require "gyre/cli/dns"
require "gyre/cli/flags"
require "gyre/cli/listen_errors"
require "gyre/cli/process/absent_steps"
require "gyre/cli/process/handover"
require "gyre/cli/process/holdings"
require "gyre/cli/process/service_manager"
require "gyre/lifetime"
require "gyre/cluster/hooks"
require "gyre/cluster/mold"
require "gyre/web/server_log"
require "gyre/web/access_log/log_file"

module Gyre
  module CLI
    module DNS
      class Serve < Command
        # Seconds that answers under way have at the end, and before a restart without workers,
        # which lets further questions wait.
        STOP_S = 5
        RESTART_S = 1
        BANNER = <<~TEXT
          Serves DNS from zone files and from rules in Ruby.

          Usage: gyre dns [options]
                 gyre dns query [options] NAME [TYPE] [@SERVER]
        TEXT
        FOOTER = "\nSignals: INT and TERM end it. HUP reads rules and zones again, and keeps the\n" \
                 "         former ones if that fails. USR1 replaces the workers one after another,\n" \
                 "         USR2 the whole program."
        SETTINGS = Settings.new({
          "Answers" => [
            Settings.row(:config, :file, "rules in Ruby: match, otherwise, zone, upstream (see docs/dns.md)", short: "-c"),
            Settings.row(:zone, :text, "a zone and its file", list: true, argument: "ORIGIN=FILE"),
            Settings.row(:upstream, :text, "a name server for other questions, of clients on this machine", list: true, argument: "ADDRESS"),
            Settings.row(:recursion, :text, "a network, instead of this machine, whose questions go upstream", list: true, argument: "NETWORK")
          ],
          "Process" => [
            Settings.row(:bind, :text, "host:port for UDP and TCP, udp://, tcp://, tls://host?cert=FILE&key=FILE", list: true, short: "-b",
              argument: "ADDRESS", usual: "localhost:53"),
            Settings.row(:workers, :count, "processes that serve, each with UDP sockets of its own", short: "-w", usual: "this one"),
            Settings.row(:log, :file, "a line for each response; - is standard output"),
            Settings.row(:metrics, :text, "serves /metrics over HTTP", argument: "ADDRESS"),
            Settings.row(:pidfile, :file, "holds the process id while the server runs"),
            Settings.row(:user, :text, "the user once the sockets are open", argument: "NAME"),
            Settings.row(:group, :text, "the group", argument: "NAME")
          ]
        })

        def flags
          require "gyre/dns/settings"
          @values, @limits = {}, {}
          Flags.new(BANNER, dash: ["--log"], footer: FOOTER) do |flags|
            flags.table(SETTINGS, @values)
            flags.table(Gyre::DNS::SETTINGS, @limits)
            flags.separator "\nOthers:"
            flags.on("--check", "only report mistakes in flags, rules and zones") { @check = true }
          end
        end

        def call(words)
          refuse_words(words)
          raise UsageError, "nothing to answer: give --config, --zone or --upstream" unless @values.values_at(:config, :zone, :upstream).any?

          require "gyre/loop" # loads slowly, so mistakes are reported first
          CLI.require_native("the DNS server")
          require "gyre/dns"
          require "gyre/web/control/server" if @values[:metrics]
          return become_mold if Cluster::Mold.asked?

          @handover = Handover.receive
          require "gyre/cli/process/launcher"
          check if @check
          return serve if @handover || !@check

          @out.puts("configuration OK")
          DONE
        end

        private

        # Opens sockets and files and gives up root's rights, then reads rules and zones.
        def serve
          CLI.raise_descriptor_limit
          @manager = ServiceManager.new
          @notices = Web::ServerLog.new(notices: @err, errors: @err)
          count = @values[:workers] || (1 if @handover && @handover["supervisor"])
          %w[gyre/cluster/runner gyre/web/control/metrics].each { |name| require name } if count # before the rights are given up
          @sockets = Gyre::DNS::Sockets.new(workers: count || 1)
          @holdings = Holdings.new(@values.slice(:bind, :metrics, :pidfile, :user, :group), endpoints: addresses, sockets: @sockets, log: @notices,
                                                                                           handover: @handover, commanded: false)
          @log = explaining { @holdings.making((@values[:log] unless @values[:log] == "-")) { open_log } }
          explaining(listens: true) { @holdings.open }
          @launcher = Launcher.new("gyre dns", @holdings)
          (count ? serve_with_workers(count) : serve_alone) ? DONE : FAILED
        ensure
          @holdings&.close
        end

        # The first process owns the sockets. Its mold reads rules and zones and forks the workers.
        def serve_with_workers(count)
          runner = Cluster::Runner.new(@launcher, log: @notices, manager: @manager, handover: @handover) { announce(" with #{count} workers") }
          runner.call(count: count, listeners: @sockets.listeners, figures: Web::Metrics, shutdown_timeout: STOP_S) { serving(runner, runner.crew) }
        end

        def serve_alone
          return Gyre.run { true } if @handover&.rehearsal?

          server = explaining { make_server(@log) }
          service = Service.new(server, @log, @err, manager: @manager, handover: @handover, launcher: @launcher)
          service.run do
            serving(service, service)
            announce
            @manager.ready
          end
          true
        end

        # Called on the loop. `source` has the snapshots.
        def serving(lifetime, source)
          Web::ControlServer.new(Web::ControlApp.new(source), listeners: @holdings.sets[:metrics].listeners, log: @notices).serve if @values[:metrics]
          AbsentSteps.report(lifetime.class) { |text| @err.puts("gyre dns: #{text}") }
        end

        def addresses = @values[:bind] || ["localhost:53"]

        def announce(more = nil)
          metrics = @holdings.metrics_urls
          @err.puts("gyre dns: listens on #{@sockets.endpoints.join(", ")}#{"; metrics on #{metrics.join(", ")}" if metrics.any?}; " \
                    "process #{Process.pid}#{more}")
        end

        def become_mold
          require "gyre/cluster/worker"
          Cluster::Mold.become(StandardError, ScriptError) { |link, inherited, _| load_mold(link, inherited) } ? DONE : FAILED
        end

        # Reads rules and zones once for all workers, which inherit them.
        def load_mold(link, inherited)
          @sockets = Gyre::DNS::Sockets.new(workers: @values[:workers] || 1)
          @sockets.open(addresses, inherited: inherited, bind: false)
          log = open_log
          server = make_server(log)
          hooks = Cluster::Hooks.new
          Cluster::Mold.new(link, hooks) do |index, own|
            Cluster::Worker.new(index, own, hooks, Web::ServerLog.new(errors: @err)) do |options|
              Service.new(server, log, @err, worker: index - 1, signals: options[:signals])
            end.run
          end
        end

        def make_server(log) = Gyre::DNS::Server.new(load: method(:rules), log: log, sockets: @sockets, **@limits)

        def open_log
          case @values[:log]
          when nil then nil
          when "-" then @out.tap { @out.sync = true }
          else Web::LogFile.new(@values[:log])
          end
        end

        # Raises StartError with all faults.
        def check
          @faults = []
          rules = self.rules
          rules.zones.each { |origin, path| noting { Gyre::DNS::Zone.load(origin, path) } }
          rules.upstreams.each { |server| noting { Gyre::DNS::ServerAddress.parse(server) } }
          addresses.each { |address| noting { Gyre::DNS::Sockets.parse(address).last.tls&.then { |tls| TLS.server(**tls) } } }
          noting { Web::ControlServer.endpoint(@values[:metrics]) } if @values[:metrics]
          noting { Privileges.new(*@values.values_at(:user, :group)) }
          raise StartError, @faults.join("\n") if @faults.any?
        end

        def noting(&block) = super { explaining(&block) }

        # `listens`: the block opens sockets.
        def explaining(listens: false)
          yield
        rescue ArgumentError, SyntaxError, LoadError, NameError => error
          raise StartError, error.message
        rescue SystemCallError => error
          flag = @values[:metrics] && error.message.include?(@values[:metrics]) ? "--metrics" : "--bind" if listens
          raise StartError, ListenErrors.explain(error, port: flag, host: flag)
        end

        def rules
          Gyre::DNS::Rules.new.tap do |rules|
            noting { evaluate(rules, File.expand_path(@values[:config])) } if @values[:config]
            (@values[:zone] || []).each do |text|
              origin, path = text.split("=", 2)
              path.to_s.empty? ? noting { raise ArgumentError, "--zone #{origin}: write ORIGIN=FILE" } : rules.zone(origin, path)
            end
            rules.upstream(*@values[:upstream])
            noting { rules.recursion(*@values[:recursion]) } if @values[:recursion]
          end
        end

        def evaluate(rules, path)
          rules.instance_eval(File.read(path), path)
        rescue StandardError => error
          place = error.backtrace_locations&.find { |each| each.path == path } or raise
          near = error.corrections.first if error.respond_to?(:corrections)
          raise ArgumentError, "#{path}:#{place.lineno}: #{error.message.lines.first.chomp}#{"; did you mean #{near}?" if near}"
        end
      end

      # One run of a DNS server and its log, in this process or in a worker.
      class Service < Lifetime
        # `launcher` starts the next program; nil in a worker.
        def initialize(server, log, err, worker: 0, launcher: nil, **options)
          super("gyre dns", **options)
          @server, @log, @err, @worker, @launcher = server, log, err, worker, launcher
        end

        def snapshot
          { "version" => VERSION, "ruby" => RUBY_VERSION, "pid" => Process.pid, "dns" => @server.stats.transform_keys(&:to_s) }
        end

        def snapshots = { "0" => snapshot }

        private

        def cancels? = true # rules that wait

        def on_start
          serving do
            @server.run(@worker) do
              yield
              @manager&.attend(Task.current) { "#{@server.stats[:queries]} requests" }
            end
          end
        end

        def on_stop(now)
          return on_stop_now if now

          Task.current.async("stop", transient: true) do
            @server.drain(Serve::STOP_S)
            @server.stop
          end
        end

        def on_stop_now = @server.stop

        def on_restart
          restarting do
            reason = @launcher.replace { @server.drain(Serve::RESTART_S) }
            @server.resume
            @err.puts("gyre dns: not restarted: #{reason}")
          end
        end

        def on_reload
          reloading do
            reopen if @log.is_a?(Web::LogFile)
            @server.reload
            @err.puts("gyre dns: rules and zones are read again")
          rescue StandardError, ScriptError => error
            @err.puts("gyre dns: not reloaded, the former rules and zones stay: #{error.message}")
          end
        end

        def reopen
          @log.reopen
        rescue SystemCallError => error
          @err.puts("gyre dns: --log goes on in the former file: #{error.message}")
        end
      end
    end
  end
end
