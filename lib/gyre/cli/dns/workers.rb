# frozen_string_literal: true

# `gyre dns --workers`: the first process. It owns the sockets; its supervisor (Gyre::Web::Cluster)
# starts a mold, which reads rules and zones and forks the workers. Made by Gyre::CLI::DNS::Serve.
# Answers nothing itself.

require "gyre"
require "gyre/cli/process/restart"
require "gyre/signals"
require "gyre/web/cluster/mold"
require "gyre/web/cluster/supervisor"

module Gyre
  module CLI
    module DNS
      class Workers
        SIGNALS = %w[INT TERM HUP USR1 CHLD].freeze
        STOP_S = 5
        private_constant :SIGNALS, :STOP_S

        # The block is called once all workers serve.
        def initialize(sockets, count, log, &ready)
          @command = Restart.new.command
          @supervisor = Web::Cluster::Supervisor.new(
            count: count, listeners: sockets.listeners, log: log, shutdown_timeout: STOP_S, ready: ready,
            spawn: ->(link) { Web::Cluster::Mold.spawn(@command, link, sockets) }
          )
        end

        # Sums for Gyre::Web::ControlApp.
        def snapshots = @supervisor.snapshots

        def ended = @supervisor.ended

        # Returns the exit status. Yields on the loop.
        def run
          well = @supervisor.run do
            Task.current.async("signals", transient: true) { Gyre.signals(*SIGNALS) { |signals| signals.each { |name| heed(name) } } }
            yield
          end
          raise StartError, @supervisor.failure if @supervisor.failure

          well ? DONE : FAILED
        end

        private

        def heed(name)
          case name
          when "INT", "TERM" then @supervisor.stop
          when "HUP" then @supervisor.signal_workers(:HUP)
          when "USR1" then @supervisor.rolling_restart
          when "CHLD" then @supervisor.reap
          end
        end
      end
    end
  end
end
