# frozen_string_literal: true

# One run of a cluster's first process: runs a Supervisor, passes signals on to it, and becomes the
# next program at USR2. `gyre dns` uses it as it is; `gyre serve` has a subclass. Loads no app.

require "gyre/cluster/supervisor"
require "gyre/lifetime"

module Gyre
  module Cluster
    class Runner < Lifetime
      # `launcher` (Gyre::CLI::Launcher) starts molds, and the next program. The block is called
      # when all workers serve, but not after a hot restart.
      def initialize(launcher, log:, **options, &announce)
        super("supervisor", **options)
        @launcher, @log, @announce = launcher, log, announce
        @former = @handover && @handover["supervisor"]
      end

      def crew = @supervisor.crew

      # Serves until a signal, with a Supervisor of these settings; yields on its loop. A rehearsal
      # ends as soon as it could serve. Returns false if a worker was killed at the end; raises
      # StartError if the server could not start.
      def call(**settings, &begin_serving)
        @supervisor = Supervisor.new(spawn: @launcher.method(:spawn_mold), log: @log, ready: method(:ready), restarted: @manager.method(:ready),
                                     former: @former, **settings)
        return Gyre.run { true } if @handover&.rehearsal?

        run(&begin_serving)
        raise StartError, @supervisor.failure if @supervisor.failure

        @log.info("Stopped")
        @well
      end

      private

      def on_start
        serving do
          @well = @supervisor.run do
            @task = Task.current
            @manager.attend(@task, method(:lives?)) { status_line }
            yield
            serves if @former
          end
        end
      end

      def ready
        @announce.call unless @former
        serves
      end

      def serves
        @serves = true
        @manager.ready
      end

      def lives? = @supervisor.stopping? || @supervisor.answering?(@manager.watchdog_s * 2)

      def status_line = "#{@supervisor.workers.count(&:serving?)} of #{@supervisor.count} workers serve"

      def on_stop(now) = @supervisor.stop(now: now)

      def on_stop_now = @supervisor.stop(now: true)

      # Reports a reload only once the workers serve, because its end is reported as READY.
      def on_reload = @serves ? reloading { @supervisor.reload } : @supervisor.reload

      # Returns a Promise of nil, or of the reason if the restart fails.
      def on_rolling_restart
        @supervisor.rolling_restart do
          @manager.reloading
          @log.info("Rolling restart: the new code is being loaded")
        end
      end

      # Returns a Promise of nil, or of the reason if the restart fails.
      def on_restart = @supervisor.begin_restart(:hot) { @restarting = @task.async("hot restart", transient: true) { replace } }

      # Executes the next program; after any failure this one continues.
      def replace
        @manager.reloading
        @log.info("Hot restart: the new program is rehearsed")
        @supervisor.restarts.finish(@launcher.replace(@supervisor))
      end

      def on_reap = @supervisor.reap

      # Prints the tasks of supervisor and workers.
      def print_tasks
        super
        @supervisor.signal_workers(:QUIT)
      end
    end
  end
end
