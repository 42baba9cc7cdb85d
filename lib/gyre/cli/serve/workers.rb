# frozen_string_literal: true

# `gyre serve --workers`: a cluster's first process. Connects its Supervisor to signals, systemd and
# the control socket. Holdings keeps sockets and files, Launcher starts programs. Loads no app.

require "gyre/cli/process/service_manager"
require "gyre/cli/serve/holdings"
require "gyre/cli/serve/launcher"
require "gyre/cluster/runner"
require "gyre/http"
require "gyre/web/banner"
require "gyre/web/control/profile"
require "gyre/web/control/server"
require "gyre/web/restart_file"
require "gyre/web/tls_contexts"

module Gyre
  module CLI
    # Starts a supervisor and runs it.
    class ServeWorkers < Cluster::Runner
      def initialize(settings, environment, count, endpoints:, log:, handover: nil)
        terminal = Terminal.new if handover || Terminal.handler != "IGNORE" # a handover ignores HUP
        super(manager: ServiceManager.new, handover: handover, terminal: terminal)
        @settings = settings
        @environment = environment
        @count = count
        @log = log
        TLS::TicketKeys.adopt(handover && handover["secrets"])
        @holdings = Holdings.new(settings, endpoints: endpoints, log: log, handover: handover)
        @launcher = Launcher.new(@holdings)
      end

      # Serves until a signal. A rehearsal ends as soon as it could serve. Returns the exit status.
      def call
        @holdings.open
        @settings[:certificates]&.prepare(@log) unless @handover&.rehearsal?
        supervisor
        @handover&.rehearsal? ? Gyre.run { DONE } : supervise
      ensure
        @holdings.close unless @execing
      end

      def endpoints = @holdings.listeners.map(&:endpoint)

      def urls = endpoints.map(&:url)

      def metrics_urls = @holdings.sets[:metrics].listeners.map(&:url)

      private

      def supervisor
        @supervisor = Cluster::Supervisor.new(
          count: @count, listeners: @holdings.listeners, spawn: @launcher.method(:spawn_mold), log: @log, ready: method(:ready),
          restarted: @manager.method(:ready), former: @handover && @handover["supervisor"], figures: Web::Metrics,
          beside: @settings[:beside] || [], spawn_program: @launcher.method(:spawn_program),
          **@settings.slice(:shutdown_timeout, :worker_timeout, :worker_boot_timeout, :load_timeout, :worker_memory_limit)
        )
      end

      def supervise
        well = run { begin_serving }
        @log.info("Stopped")
        well ? DONE : FAILED
      end

      # Called on the supervisor's loop.
      def begin_serving
        @task = Task.current
        Web::RestartFile.watch(@settings[:restart_file]) { on_rolling_restart } if @settings[:restart_file]
        serve_control
        serves if @handover
      end

      def serve_control
        { control: { status: method(:status), commands: commands }, metrics: {} }.each do |name, more|
          app = Web::ControlApp.new(@supervisor.crew, **more)
          Web::ControlServer.new(app, listeners: @holdings.sets[name].listeners, log: @log).serve
        end
      end

      def on_stop(now)
        @replacing&.stop # else the next program would serve on
        super
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

      # Returns a Promise of nil, or of the reason if the restart fails.
      def on_rolling_restart
        @supervisor.rolling_restart do
          @manager.reloading
          @log.info("Rolling restart: the new code is being loaded")
        end
      end

      # Returns a Promise of nil, or of the reason if the restart fails.
      def on_restart = @supervisor.begin_restart(:hot) { @replacing = @task.async("hot restart", transient: true) { replace } }

      # Executes the next program; after any failure this one continues.
      def replace
        @manager.reloading
        @log.info("Hot restart: the new program is rehearsed")
        @supervisor.restarts.finish(@launcher.replace(@supervisor) { @execing = true })
      rescue StandardError => error
        @supervisor.restarts.finish(error.is_a?(SystemCallError) ? error.message : "#{error.message} (#{error.class})")
      ensure
        @execing = false
      end

      def ready
        @log.info(Web::Banner.text(self, @environment, workers: @supervisor.workers.size)) unless @handover
        serves
      end

      def serves
        @manager.ready
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
