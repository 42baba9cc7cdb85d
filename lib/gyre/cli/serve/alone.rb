# frozen_string_literal: true

# `gyre serve` without workers: sockets and pidfile (Holdings), systemd, signals. Made by
# Gyre::CLI::Serve.

require "gyre/cli/process/service_manager"
require "gyre/cli/serve/holdings"
require "gyre/signals"

module Gyre
  module CLI
    class ServeAlone
      # Their effect with workers.
      RESTARTS = { "USR1" => "a rolling restart", "USR2" => "a hot restart", "TTIN" => "a worker more", "TTOU" => "a worker fewer" }.freeze

      def initialize(settings, endpoints:, log:)
        raise StartError, Serve::NEEDS_WORKERS if settings[:state]

        @log = log
        @holdings = Holdings.new(settings.slice(:bind, :host, :port, :pidfile, :user, :group), endpoints: endpoints, log: log, commanded: false)
        @manager = ServiceManager.new
      end

      # Yields to load the app, and returns it. Opens sockets and changes the user first, if
      # requested; otherwise loads the app first, to find its mistakes before taking a port.
      def prepare
        return yield.tap { @holdings.open } unless @holdings.drops_rights?

        @holdings.open
        yield
      end

      def options = { listeners: @holdings.listeners, before_stop: @manager.method(:stopping) }

      # Yields once it serves, until a signal ends it.
      def run(server)
        server.run do
          task = Task.current
          task.async("signals", transient: true) { Gyre.signals(*RESTARTS.keys) { |signals| signals.each { |name| explain(name) } } }
          @manager.attend(task) { status(server.stats) }
          yield
          @manager.ready
        end
      ensure
        close
      end

      def close = @holdings.close

      private

      def explain(name) = @log.info("#{name}: #{RESTARTS.fetch(name)} needs workers: start the server with --workers 1 or more")

      def status(stats) = "#{stats[:running]} requests running, #{stats[:requests]} served, #{stats[:connections]} connections"
    end
  end
end
