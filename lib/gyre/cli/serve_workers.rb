# frozen_string_literal: true

# `gyre serve --workers`: what the first process of a cluster does beside supervising: sockets,
# files, signals, systemd, the control socket, and the hot restart. Gyre::CLI::Serve makes one. It
# never loads the app.

require "gyre/cli/pidfile"
require "gyre/cli/privileges"
require "gyre/cli/restart"
require "gyre/cli/service_manager"
require "gyre/cli/state_file"
require "gyre/http"
require "gyre/signals"
require "gyre/web/banner"
require "gyre/web/control_server"
require "gyre/web/log_file"
require "gyre/web/cluster/control"
require "gyre/web/cluster/handover"
require "gyre/web/cluster/mold"
require "gyre/web/cluster/supervisor"
require "gyre/web/restart_file"
require "gyre/web/task_signal"

module Gyre
  module CLI
    # One start of a supervisor.
    class ServeWorkers
      # What the program of a restart gets instead of serving.
      CHECK = "--check"
      SIGNALS = %w[INT TERM HUP USR1 USR2 TTIN TTOU CHLD].freeze
      STATUS_S = 1
      # What the check of a new program may take, in seconds.
      CHECK_S = 60
      private_constant :STATUS_S, :CHECK_S

      # @param settings [Hash] as {Gyre::Web::Settings} has them
      # @param environment [String]
      # @param count [Integer] workers
      # @param endpoints [Array<Gyre::Endpoint>]
      # @param chosen [Boolean] whether they are from the settings, and not the default
      # @param log [#info, #error]
      # @param restart [Restart]
      def initialize(settings, environment, count, endpoints:, chosen:, log:, restart: Restart.new)
        @settings = settings
        @environment = environment
        @count = count
        @endpoints = endpoints
        @chosen = chosen
        @log = log
        @restart = restart
        @folder = folder
        @manager = ServiceManager.new
        @sockets = Web::Sockets.new
        @control = Web::Sockets.new
        @metrics = Web::Sockets.new
      end

      # Serves until a signal ends it.
      #
      # @return [Integer] the exit status
      # @raise [StartError, SystemCallError, SocketError]
      def call
        @handover = Web::Cluster::Handover.receive
        privileges = Privileges.new(*@settings.values_at(:user, :group))
        open
        write_files(privileges)
        privileges.drop
        supervise
      ensure
        close unless @execing
      end

      # @return [Array<String>] where it listens
      def urls = @sockets.listeners.map(&:url)

      # @return [Array<String>] where its metrics are
      def metrics_urls = @metrics.listeners.map(&:url)

      private

      # Where a new program is to be found in this folder after a deploy: as the shell has named it,
      # symlinks and all (/srv/app/current).
      def folder
        named = ENV["PWD"]
        named && File.identical?(named, Dir.pwd) ? named : Dir.pwd
      rescue SystemCallError
        "/"
      end

      def open
        inherited = @handover ? @handover.sockets(:sockets) : Web::Sockets.activated
        endpoints = inherited.any? && !@handover && !@chosen ? [] : @endpoints
        others = @sockets.open(endpoints, inherited: inherited)
        others.each { |socket| @handover ? Web::Cluster::Handover.close(socket) : @sockets.adopt(socket) }
        open_control if @settings[:state] || @settings.slice(:user, :group).empty?
        open_beside(@metrics, (@settings[:metrics] || []).map { |address| Web::ControlServer.endpoint(address) }, :metrics)
      end

      def open_beside(sockets, endpoints, name)
        left = sockets.open(endpoints, inherited: @handover ? @handover.sockets(name) : [])
        left.each { |socket| Web::Cluster::Handover.close(socket) }
      end

      # Without --state there is a file too, if it can be; not as a user that is given up later.
      def open_control
        @state = @settings[:state] ? StateFile.new(@settings[:state]) : StateFile.usual
        open_beside(@control, [@state.endpoint], :control)
      rescue StartError, SystemCallError => error
        raise if @settings[:state]

        @log.info("no #{StateFile::PATH}, so gyre ctl and gyre top need --state FILE: #{error.message}")
        @state = nil
      end

      def write_files(privileges)
        @pidfile = Pidfile.new(@settings[:pidfile]) if @settings[:pidfile]
        return if @handover # they are there

        @pidfile&.write
        @state&.write(pid: Process.pid, urls: urls)
        paths = @sockets.listeners.map { |listener| listener.endpoint.path }.compact.reject { |path| path.start_with?("@") }
        Web::LogFile.new(@settings[:access_log]).close if @settings[:access_log]
        privileges.own(*paths, @settings[:access_log], @pidfile&.path, @state&.path, @state&.control)
      end

      def supervise
        @supervisor = Web::Cluster::Supervisor.new(
          count: @count, listeners: @sockets.listeners, spawn: method(:spawn_mold), log: @log, former: @handover&.former,
          ready: method(:ready), restarted: @manager.method(:ready),
          **@settings.slice(:shutdown_timeout, :worker_timeout, :worker_boot_timeout, :worker_memory_limit)
        )
        well = Web::TaskSignal.handle(print: method(:print_tasks)) { @supervisor.run { begin_serving } }
        raise StartError, @supervisor.failure if @supervisor.failure

        @log.info("Stopped")
        well ? DONE : FAILED
      end

      # On the supervisor's loop.
      def begin_serving
        @task = task = Task.current
        task.async("signals", transient: true) { Gyre.signals(*SIGNALS) { |signals| signals.each { |name| heed(name) } } }
        task.every(STATUS_S, "status") { @manager.status(status_line) } if @manager.present?
        task.every(@manager.watchdog_s, "systemd's watchdog") { pat_watchdog } if @manager.watchdog_s
        watch_restart_file(@settings[:restart_file]) if @settings[:restart_file]
        task.async("control", transient: true) { serve_control }
        @manager.ready if @handover
        @supervisor.stop if @handover&.signalled?
      end

      def watch_restart_file(path)
        Task.current.async("restart file", transient: true) do
          loop do
            Web::RestartFile.new(path).wait
            rolling_restart
          end
        end
      end

      def serve_control
        status = Web::Control.new(@supervisor)
        @servers = [
          Web::ControlServer.new(Web::Cluster::Control.new(commands, method(:status), others: status), listeners: @control.listeners, log: @log),
          Web::ControlServer.new(status, listeners: @metrics.listeners, log: @log)
        ].each(&:start)
        sleep
      ensure
        @servers&.each(&:close) # before the loop ends: it would wait for them
      end

      def heed(name)
        case name
        when "INT", "TERM" then stop
        when "CHLD" then @supervisor.reap
        when "HUP" then hang_up
        when "USR1" then rolling_restart
        when "USR2" then hot_restart
        when "TTIN" then @supervisor.resize(+1)
        when "TTOU" then @supervisor.resize(-1)
        end
      end

      # The supervisor's own, and those of its workers.
      def print_tasks
        Web::TaskSignal.print
        @supervisor.signal_workers(:QUIT)
      end

      def stop
        @manager.stopping
        @supervisor.stop
      end

      # The kernel sends it also at a terminal's end.
      def hang_up
        @terminal = [$stdin, $stdout, $stderr].find(&:tty?) unless defined?(@terminal)
        return stop if @terminal && !@terminal.tty?

        reload
      end

      def reload
        @log.info("HUP: the workers open their log files and read their certificates again")
        @supervisor.signal_workers(:HUP)
        nil
      end

      def rolling_restart
        @manager.reloading
        @log.info("Rolling restart: the new code is being loaded")
        @supervisor.rolling_restart
      end

      # @return [Task] of nil, or of the reason why it was not done
      def hot_restart = @task.async("hot restart", transient: true) { replace }

      def replace
        @manager.reloading
        @log.info("Hot restart: the new program is being checked")
        command = @restart.command
        reason = nil
        promise = @supervisor.begin_restart(:hot) { reason = check(command) }
        return promise.value if promise.value # refused

        reason ||= replace_program(command)
        @supervisor.restarts.finish(reason)
        reason
      end

      # @return [String, nil] why the new program would not start
      def check(command)
        reader, writer = IO.pipe
        status = nil
        child = Task.current.async("check") do
          status = @supervisor.reaper.run(bundle_environment, *command, CHECK, limit_s: CHECK_S, out: writer, err: writer, chdir: @folder)
        end
        writer.close
        printed = reader.read
        child.wait
        [printed.strip.delete_prefix("gyre serve: "), Web::Cluster::Member.end_of(status)].find { |text| !text.empty? } unless status.success?
      rescue SystemCallError => error
        error.message
      ensure
        reader&.close
      end

      # @return [String] why it could not be
      def replace_program(command)
        @execing = true
        with_ticket_keys do |environment, keys|
          Web::Cluster::Handover.exec(@supervisor, { sockets: @sockets, control: @control, metrics: @metrics },
                                       [bundle_environment.merge(environment), *command], keep: keys, chdir: @folder)
        end
      rescue StandardError => error # whatever it is, this program goes on
        @execing = false
        error.is_a?(SystemCallError) ? error.message : "#{error.message} (#{error.class})"
      end

      def spawn_mold(link)
        given = { link: link.socket.fileno, supervisor: Process.pid, listeners: @sockets.to_a }
        environment = Web::Cluster::Mold::SUPERVISORS_OWN.to_h { |name| [name, nil] }
        environment[Web::Cluster::Mold::VARIABLE] = JSON.generate(given)
        with_ticket_keys do |more, keys|
          staying = [link.socket, *@sockets.listeners.map(&:socket), *keys].to_h { |io| [io.fileno, io.fileno] }
          Process.spawn(environment.merge(bundle_environment, more), *@restart.command, chdir: @folder, close_others: true, **staying)
        end
      end

      # Clients resume their TLS sessions with each worker, before a restart and after it.
      #
      # @yieldparam environment [Hash] for the program
      # @yieldparam keys [Array<IO>] what it inherits beside the sockets
      def with_ticket_keys
        return yield({}, []) unless @endpoints.any?(&:tls)

        environment, reader = TLS::TicketKeys.shared.hand_over
        yield environment, [reader]
      ensure
        reader&.close
      end

      # Bundler has named the Gemfile by the folder's real path, which is the old code's after a
      # deploy.
      def bundle_environment
        gemfile = ENV["BUNDLE_GEMFILE"].to_s
        @real_folder ||= Dir.pwd
        return {} if @folder == @real_folder || !gemfile.start_with?("#{@real_folder}/")

        { "BUNDLE_GEMFILE" => @folder + gemfile.delete_prefix(@real_folder) }
      end

      def ready
        @log.info(Web::Banner.text(self, @environment, workers: @supervisor.workers.size)) unless @handover
        @manager.ready
      end

      def status_line
        serving = @supervisor.workers.count(&:serving?)
        snapshots = @supervisor.snapshots.values
        running = snapshots.sum { |snapshot| snapshot.dig("connections", "running").to_i }
        served = [*snapshots, *[@supervisor.ended].compact].sum { |counts| counts["requests"].to_i }
        "#{serving} of #{@supervisor.count} workers serve, #{running} requests running, #{served} served"
      end

      def pat_watchdog
        @manager.alive if @supervisor.stopping? || @supervisor.answering?(@manager.watchdog_s * 2)
      end

      def commands
        { "/stop" => -> { stop && nil }, "/reload" => method(:reload),
          "/rolling-restart" => -> { rolling_restart.wait }, "/restart" => -> { hot_restart.wait } }
      end

      def status
        workers = @supervisor.workers.map do |worker|
          { name: worker.index.to_s, pid: worker.pid, phase: worker.phase, generation: worker.generation,
            age_s: (Clock.now - worker.started_s).round(1), silent_s: (Clock.now - worker.heard_s).round(1),
            resident_bytes: worker.resident_bytes, snapshot: worker.snapshot }
        end
        { pid: Process.pid, version: VERSION, urls: urls, count: @supervisor.count, restart: @supervisor.restarts.last,
          workers: workers }
      end

      def close
        [@sockets, @control, @metrics].flat_map(&:listeners).each(&:close)
        @pidfile&.remove
        @state&.remove
      end
    end
  end
end
