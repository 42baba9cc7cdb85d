# frozen_string_literal: true

# One run of a cluster's first process: passes signals on to its Supervisor. `gyre dns` uses it as
# it is; `gyre serve` has a subclass.

require "gyre/cluster/supervisor"
require "gyre/lifetime"

module Gyre
  module Cluster
    class Runner < Lifetime
      def initialize(supervisor = nil, **options)
        super("supervisor", **options)
        @supervisor = supervisor
      end

      def crew = @supervisor.crew

      # Yields on the supervisor's loop. Returns false if a worker was killed at the end; raises
      # StartError if the server could not start.
      def run
        super
        raise StartError, @supervisor.failure if @supervisor.failure

        @well
      end

      private

      def on_start
        serving do
          @well = @supervisor.run do
            @manager&.attend(Task.current, method(:lives?)) { status_line }
            yield
          end
        end
      end

      def lives? = @supervisor.stopping? || @supervisor.answering?(@manager.watchdog_s * 2)

      def status_line = "#{@supervisor.workers.count(&:serving?)} of #{@supervisor.count} workers serve"

      def on_stop(now) = @supervisor.stop(now: now)

      def on_stop_now = @supervisor.stop(now: true)

      def on_reload = reloading { @supervisor.reload }

      def on_rolling_restart = @supervisor.rolling_restart

      def on_reap = @supervisor.reap

      # Prints the tasks of supervisor and workers.
      def print_tasks
        super
        @supervisor.signal_workers(:QUIT)
      end
    end
  end
end
