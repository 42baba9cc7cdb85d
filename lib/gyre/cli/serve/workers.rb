# frozen_string_literal: true

# `gyre serve --workers`: a cluster's first process. Adds to Gyre::Cluster::Runner the control
# socket, the certificates and the number of workers. Loads no app.

require "gyre/cli/process/service_manager"
require "gyre/cli/process/holdings"
require "gyre/cli/process/launcher"
require "gyre/cluster/runner"
require "gyre/http"
require "gyre/web/banner"
require "gyre/web/control/profile"
require "gyre/web/control/server"
require "gyre/web/restart_file"
require "gyre/web/tls_contexts"

module Gyre
  module CLI
    class ServeWorkers < Cluster::Runner
      def initialize(settings, environment, count, endpoints:, log:, handover: nil)
        terminal = Terminal.new if handover || Terminal.handler != "IGNORE" # a handover ignores HUP
        TLS::TicketKeys.adopt(handover && handover["secrets"])
        @holdings = Holdings.new(settings, endpoints: endpoints, log: log, handover: handover)
        super(Launcher.new("gyre serve", @holdings), log: log, manager: ServiceManager.new, handover: handover, terminal: terminal) do
          log.info(Web::Banner.text(self, environment, workers: @supervisor.workers.size))
        end
        @settings, @count = settings, count
      end

      # Serves until a signal. A rehearsal ends as soon as it could serve. Returns the exit status.
      def call
        @holdings.open
        limits = @settings.slice(:shutdown_timeout, :worker_timeout, :worker_boot_timeout, :load_timeout, :worker_memory_limit)
        well = super(count: @count, listeners: @holdings.listeners, figures: Web::Metrics, beside: @settings[:beside] || [],
                     spawn_program: @launcher.method(:spawn_program), **limits) { begin_serving }
        well ? DONE : FAILED
      ensure
        @holdings.close
      end

      def endpoints = @holdings.listeners.map(&:endpoint)

      def urls = endpoints.map(&:url)

      def metrics_urls = @holdings.metrics_urls

      private

      def on_start
        @settings[:certificates]&.prepare(@log)
        super
      end

      # Called on the supervisor's loop.
      def begin_serving
        Web::RestartFile.watch(@settings[:restart_file]) { on_rolling_restart } if @settings[:restart_file]
        serve_control
      end

      def serve_control
        { control: { status: method(:status), commands: commands }, metrics: {} }.each do |name, more|
          app = Web::ControlApp.new(@supervisor.crew, **more)
          Web::ControlServer.new(app, listeners: @holdings.sets[name].listeners, log: @log).serve
        end
      end

      def on_reload
        @log.info("HUP: the workers open their log files and read their certificates again")
        super
      end

      def on_grow = @supervisor.resize(+1)

      def on_shrink = @supervisor.resize(-1)

      # Also reads the certificates here, to find errors. Returns nil, or why the old ones stay.
      def reload_or_reason
        reload
        Web::TLSContexts.new(@settings[:tls], log: nil).contexts(endpoints)
        nil
      rescue StartError => error
        "#{error.message}. The certificates in use stay"
      end

      def serves
        super
        return unless @settings[:certificates]

        @keeper = Web::ACME::Keeper.new(@settings, log: @log, plain: !endpoints.all?(&:tls)) { @supervisor.reload }.start(@task)
      end

      def status_line
        snapshots = @supervisor.crew.snapshots.values
        running = snapshots.sum { |snapshot| snapshot.dig("connections", "running").to_i }
        served = [*snapshots, *[@supervisor.crew.ended].compact].sum { |counts| counts["requests"].to_i }
        "#{super}, #{running} requests running, #{served} served"
      end

      def commands
        Web::ControlResult.commands(
          "/stop" => -> { stop && nil }, "/reload" => method(:reload_or_reason),
          "/rolling-restart" => -> { on_rolling_restart.wait }, "/restart" => -> { on_restart.wait },
          "/renew" => -> { @keeper ? @keeper.renew : "without acme there is nothing to renew, and before the workers serve" }
        ).merge!("/profile" => Web::ControlProfile.of(@supervisor.crew))
      end

      def status
        workers = @supervisor.workers.map do |worker|
          { name: worker.index.to_s, pid: worker.pid, phase: worker.phase, generation: worker.generation,
            age_s: (Clock.now - worker.started_s).round(1), silent_s: (Clock.now - worker.heard_s).round(1),
            resident_bytes: worker.resident_bytes, snapshot: worker.snapshot }
        end
        { pid: Process.pid, version: VERSION, urls: urls, count: @supervisor.count, restart: @supervisor.restarts.last,
          workers: workers, programs: @supervisor.programs.map(&:to_h), **(@keeper ? { certificates: @keeper.status } : {}) }
      end
    end
  end
end
