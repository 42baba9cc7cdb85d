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
      # Beside what a rehearsal inherits: older programs only check their settings then.
      CHECK = "--check"
      SIGNALS = %w[INT TERM HUP USR1 USR2 TTIN TTOU CHLD].freeze
      STATUS_S = 1
      # What the rehearsal of a new program may take, in seconds.
      REHEARSAL_S = 60
      CHUNK_BYTES = 65_536
      private_constant :STATUS_S, :REHEARSAL_S, :CHUNK_BYTES

      # @param settings [Hash] as {Gyre::Web::Settings} has them
      # @param environment [String]
      # @param count [Integer] workers
      # @param endpoints [Array<Gyre::Endpoint>]
      # @param chosen [Boolean] whether they are from the settings, and not the default
      # @param log [#info, #error]
      # @param handover [Web::Cluster::Handover, nil] of the former program in this process
      # @param restart [Restart]
      def initialize(settings, environment, count, endpoints:, chosen:, log:, handover: nil, restart: Restart.new)
        @settings = settings
        @environment = environment
        @count = count
        @endpoints = endpoints
        @chosen = chosen
        @log = log
        @handover = handover
        @restart = restart
        @folder = folder
        @manager = ServiceManager.new
        @privileges = Privileges.new(*settings.values_at(:user, :group))
        @sockets, @control, @metrics = Array.new(3) { Web::Sockets.new(making: @privileges.method(:making)) }
      end

      # Serves until a signal ends it; a rehearsal ends when it could.
      #
      # @return [Integer] the exit status
      # @raise [StartError, SystemCallError, SocketError]
      def call
        open
        write_files
        @privileges.drop
        open_access_log
        supervisor
        @handover&.rehearsal? ? Gyre.run { DONE } : supervise
      ensure
        close unless @execing
      end

      # @return [Array<Gyre::Endpoint>] where it listens
      def endpoints = @sockets.listeners.map(&:endpoint)

      # @return [Array<String>] the same as one types it
      def urls = endpoints.map(&:url)

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
        endpoints = @chosen || inherited.none?(&:given) ? @endpoints : []
        others = @sockets.open(endpoints, inherited: inherited)
        others.each { |socket| socket.given ? @sockets.adopt(socket) : socket.close }
        open_control
        open_beside(@metrics, (@settings[:metrics] || []).map { |address| Web::ControlServer.endpoint(address) }, :metrics)
      end

      def open_beside(sockets, endpoints, name)
        sockets.open(endpoints, inherited: @handover ? @handover.sockets(name) : []).each(&:close)
      end

      # Without --state there is a file too, if it can be; not as a user that is given up later.
      def open_control
        @state = @settings[:state] ? StateFile.new(@settings[:state]) : usual_state
        open_beside(@control, [@state&.endpoint].compact, :control)
      rescue StartError, SystemCallError => error
        raise if @settings[:state]

        @log.info("no #{StateFile::PATH}, so gyre ctl and gyre top need --state FILE: #{error.message}")
        @state = nil
      end

      def usual_state = (StateFile.usual if @settings.slice(:user, :group).empty?)

      def write_files
        @pidfile = Pidfile.new(@settings[:pidfile]) if @settings[:pidfile]
        @privileges.making(@pidfile.path) { @pidfile.write } if @pidfile && !kept?(:pidfile)
        @privileges.making(@state.path) { @state.write(pid: Process.pid, urls: urls) } if @state && !kept?(:state)
        remove_former_files if @handover && !@handover.rehearsal?
      end

      def files = { pidfile: @pidfile&.path, state: @state&.path }

      # Whether the former program has written it, with the same process id.
      def kept?(name) = @handover && @handover.file(name, files[name]) == files[name]

      def remove_former_files
        { pidfile: Pidfile, state: StateFile }.each do |name, kind|
          former = @handover.file(name, files[name])
          kind.new(former).remove if former && !kept?(name)
        end
      end

      # As the user that it will be opened by: in a folder of that user's, root would follow links.
      def open_access_log
        Web::LogFile.new(@settings[:access_log]).close if @settings[:access_log]
      end

      def supervisor
        @supervisor = Web::Cluster::Supervisor.new(
          count: @count, listeners: @sockets.listeners, spawn: method(:spawn_mold), log: @log, former: @handover&.former,
          ready: method(:ready), restarted: @manager.method(:ready), beside: @settings[:beside] || [], spawn_program: method(:spawn_program),
          **@settings.slice(:shutdown_timeout, :worker_timeout, :worker_boot_timeout, :worker_memory_limit)
        )
      end

      def supervise
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

      # @return [Promise] of nil, or of the reason why it was not done
      def rolling_restart
        @supervisor.rolling_restart do
          @manager.reloading
          @log.info("Rolling restart: the new code is being loaded")
        end
      end

      # @return [Promise] of nil, or of the reason why it was not done
      def hot_restart
        @supervisor.begin_restart(:hot) { @task.async("hot restart", transient: true) { replace } }
      end

      # Whatever goes wrong, this program goes on.
      def replace
        @manager.reloading
        @log.info("Hot restart: the new program is rehearsed")
        command = @restart.command
        reason = rehearse(command) || replace_program(command)
        @supervisor.restarts.finish(reason)
      rescue StandardError => error
        @supervisor.restarts.finish(error.is_a?(SystemCallError) ? error.message : "#{error.message} (#{error.class})")
      ensure
        @execing = false
      end

      # In a child, which inherits all that the new program will, and gets ready to serve.
      #
      # @return [String, nil] why it could not
      def rehearse(command)
        status = nil
        printed = read_output do |writer|
          Web::Cluster::Handover.lend(@supervisor, sets, files) do |environment, descriptors|
            status = @supervisor.reaper.run(bundle_environment.merge(environment), *command, CHECK, limit_s: REHEARSAL_S,
                                            out: writer, err: writer, chdir: @folder, close_others: true, **descriptors)
          end
        end
        return if status.success?
        return "the new program #{Web::Cluster::Member.end_of(status)} (it has #{REHEARSAL_S} s)" if status.signaled? || printed.empty?

        printed.delete_prefix("gyre serve: ")
      end

      # The pipe's end is not waited for: a program that the child has started may have it open.
      #
      # @yieldparam writer [IO]
      # @return [String] the beginning of what was written there
      def read_output
        reader, writer = IO.pipe
        printed = "".b
        keep = ->(bytes) { printed << bytes if bytes.is_a?(String) && printed.bytesize < CHUNK_BYTES }
        reading = Task.current.async("output", transient: true) { loop { keep.call(reader.readpartial(CHUNK_BYTES)) } }
        yield writer
        reading.stop
        keep.call(reader.read_nonblock(CHUNK_BYTES, exception: false))
        printed.force_encoding(Encoding::UTF_8).scrub.strip
      ensure
        [reader, writer].compact.each(&:close)
      end

      # Returns only by an exception.
      def replace_program(command)
        @execing = true
        with_ticket_keys do |environment, keys|
          Web::Cluster::Handover.exec(@supervisor, sets, files, [bundle_environment.merge(environment), *command], keep: keys, chdir: @folder)
        end
      end

      def sets = { sockets: @sockets, control: @control, metrics: @metrics }

      def spawn_program(words)
        Process.spawn(childrens_environment, [words.first, words.first], *words.drop(1), chdir: @folder, close_others: true, pgroup: true)
      end

      def childrens_environment = Web::Cluster::Mold::SUPERVISORS_OWN.to_h { |name| [name, nil] }.merge(bundle_environment)

      def spawn_mold(link)
        given = { link: link.socket.fileno, supervisor: Process.pid, listeners: @sockets.to_a }
        environment = childrens_environment
        environment[Web::Cluster::Mold::VARIABLE] = JSON.generate(given)
        with_ticket_keys do |more, keys|
          staying = [link.socket, *@sockets.listeners.map(&:socket), *keys].to_h { |io| [io.fileno, io.fileno] }
          Process.spawn(environment.merge(more), *@restart.command, chdir: @folder, close_others: true, **staying)
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
          workers: workers, programs: @supervisor.programs.map(&:to_h) }
      end

      def close
        [@sockets, @control, @metrics].flat_map(&:listeners).each(&:close)
        @pidfile&.remove
        @state&.remove
      end
    end
  end
end
