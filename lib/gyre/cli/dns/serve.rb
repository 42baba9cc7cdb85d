# frozen_string_literal: true

# `gyre dns`: runs a Gyre::DNS::Server from a rules file and flags, in this process or in workers.

require "gyre/cli/dns"
require "gyre/cli/flags"
require "gyre/cli/listen_errors"
require "gyre/cli/process/absent_steps"
require "gyre/cli/process/identity"
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
        STOP_S = 5
        BANNER = <<~TEXT
          Serves DNS from zone files and from rules in Ruby.

          Usage: gyre dns [options]
                 gyre dns query [options] NAME [TYPE] [@SERVER]
        TEXT
        FOOTER = "\nSignals: INT and TERM end it. HUP reads rules and zones again, and keeps the\n" \
                 "         former ones if that fails. USR1 replaces the workers one after another."
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
          end
        end

        def call(words)
          refuse_words(words)
          raise UsageError, "nothing to answer: give --config, --zone or --upstream" unless @values.values_at(:config, :zone, :upstream).any?

          require "gyre/loop" # loads slowly, so mistakes are reported first
          CLI.require_native("the DNS server")
          require "gyre/dns"
          return become_mold if Cluster::Mold.asked?

          CLI.raise_descriptor_limit
          serve(@identity = Identity.new(*@values.values_at(:user, :group, :pidfile)))
        ensure
          @sockets&.close
          @identity&.leave
        end

        private

        # Binds the sockets and, if there are no workers, reads rules and zones; then gives up
        # root's rights.
        def serve(identity)
          @manager = ServiceManager.new
          log = identity.making((@values[:log] unless @values[:log] == "-")) { open_log }
          @sockets = explaining("--bind") { Gyre::DNS::Sockets.new(addresses, workers: @values[:workers] || 1) }
          count = @values[:workers]
          run = count ? workers(count) : explaining("--bind") { Service.new(make_server(log), log, @err, manager: @manager) }
          @metrics = explaining("--metrics") { metrics(count ? run.crew : run) }
          identity.assume
          well = run.run do
            @metrics&.serve
            AbsentSteps.report(run.class) { |text| @err.puts("gyre dns: #{text}") }
            announce unless count
          end
          well == false ? FAILED : DONE
        end

        # The first process owns the sockets. Its mold reads rules and zones and forks the workers.
        def workers(count)
          require "gyre/cli/process/restart"
          require "gyre/cluster/runner"
          require "gyre/web/control/metrics"
          command = Restart.command
          supervisor = Cluster::Supervisor.new(
            count: count, listeners: @sockets.listeners, log: Web::ServerLog.new(notices: @err, errors: @err), shutdown_timeout: STOP_S,
            ready: -> { announce(" with #{count} workers") }, figures: Web::Metrics,
            spawn: -> { Cluster::Mold.spawn(command, @sockets, environment: Restart.environment) }
          )
          Cluster::Runner.new(supervisor, manager: @manager)
        end

        def addresses = @values[:bind] || ["localhost:53"]

        def announce(more = nil)
          metrics = "; metrics on #{@metrics.urls.join(", ")}" if @metrics
          @err.puts("gyre dns: listens on #{@sockets.endpoints.join(", ")}#{metrics}; process #{Process.pid}#{more}")
          @manager.ready
        end

        def become_mold
          require "gyre/cluster/worker"
          Cluster::Mold.become(StandardError, ScriptError) { |link, inherited, _| load_mold(link, inherited) } ? DONE : FAILED
        end

        # Reads rules and zones once for all workers, which inherit them.
        def load_mold(link, inherited)
          @sockets = Gyre::DNS::Sockets.new(addresses, workers: @values[:workers], inherited: inherited)
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
        rescue SystemCallError => error
          raise StartError, error.message
        end

        def explaining(flag)
          yield
        rescue ArgumentError, SyntaxError, LoadError, NameError => error
          raise StartError, error.message
        rescue SystemCallError => error
          raise StartError, ListenErrors.explain(error, port: flag, host: flag)
        end

        def rules
          zones = (@values[:zone] || []).map { |text| text.split("=", 2) }
          wrong = zones.find { |_, path| path.to_s.empty? } and raise ArgumentError, "--zone #{wrong.first}: write ORIGIN=FILE"
          Gyre::DNS::Rules.new.tap do |rules|
            evaluate(rules, File.expand_path(@values[:config])) if @values[:config]
            zones.each { |origin, path| rules.zone(origin, path) }
            rules.upstream(*@values[:upstream])
            rules.recursion(*@values[:recursion]) if @values[:recursion]
          end
        end

        def evaluate(rules, path)
          rules.instance_eval(File.read(path), path)
        rescue StandardError => error
          place = error.backtrace_locations&.find { |each| each.path == path } or raise
          near = error.corrections.first if error.respond_to?(:corrections)
          raise ArgumentError, "#{path}:#{place.lineno}: #{error.message.lines.first.chomp}#{"; did you mean #{near}?" if near}"
        end

        def metrics(source)
          return unless @values[:metrics]

          require "gyre/web/control/server"
          Web::ControlServer.new(Web::ControlApp.new(source), bind: @values[:metrics], log: Web::ServerLog.new(errors: @err)).listen
        end
      end

      # One run of a DNS server and its log, in this process or in a worker.
      class Service < Lifetime
        def initialize(server, log, err, worker: 0, **options)
          super("gyre dns", **options)
          @server = server
          @log = log
          @err = err
          @worker = worker
        end

        def snapshot
          { "version" => VERSION, "ruby" => RUBY_VERSION, "pid" => Process.pid, "dns" => @server.stats.transform_keys(&:to_s) }
        end

        def snapshots = { "0" => snapshot }

        private

        def on_start
          serving do
            @server.run(@worker) do
              yield
              @manager&.attend(Task.current) { "#{@server.stats[:queries]} requests" }
            end
          end
        end

        def on_stop(_now) = @server.stop

        def on_stop_now; end

        def on_reload
          reloading do
            @log.reopen if @log.is_a?(Web::LogFile)
            @server.reload
            @err.puts("gyre dns: rules and zones are read again")
          rescue StandardError, ScriptError => error
            @err.puts("gyre dns: not reloaded, the former rules and zones stay: #{error.message}")
          end
        end
      end
    end
  end
end
