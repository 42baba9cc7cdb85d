# frozen_string_literal: true

# `gyre serve` without workers: sockets, pidfile, another user, systemd, and signals meant for a
# server with workers. Made by Gyre::CLI::Serve; Gyre::Web::Server serves.

require "gyre/cli/process/pidfile"
require "gyre/cli/process/privileges"
require "gyre/cli/process/service_manager"
require "gyre/signals"
require "gyre/web/sockets"

module Gyre
  module CLI
    class ServeAlone
      # Their effect with workers.
      RESTARTS = { "USR1" => "a rolling restart", "USR2" => "a hot restart", "TTIN" => "a worker more", "TTOU" => "a worker fewer" }.freeze
      STATUS_S = 1
      private_constant :STATUS_S

      # `chosen`: the endpoints come from the settings rather than from the default.
      def initialize(settings, endpoints:, chosen:, log:)
        raise StartError, Serve::NEEDS_WORKERS if settings[:state]

        @log = log
        @pidfile = Pidfile.new(settings[:pidfile]) if settings[:pidfile]
        @privileges = Privileges.new(*settings.values_at(:user, :group))
        @manager = ServiceManager.new
        @sockets = Web::Sockets.new(making: @privileges.method(:making))
        @inherited = Web::Sockets.activated
        @endpoints = @inherited.any? && !chosen ? [] : endpoints
      end

      # Opens the sockets and changes to a requested user, before that user loads the app. Otherwise
      # loads the app first, to find its mistakes before taking a port. Yields to load the app and
      # returns it.
      def prepare
        return yield.tap { open } unless @privileges.wanted?

        open
        @privileges.drop
        yield
      end

      def options = { listeners: listeners, before_stop: @manager.method(:stopping) }

      # Serves until a signal ends it. Yields once it serves.
      def run(server)
        server.run do
          task = Task.current
          task.async("signals", transient: true) { Gyre.signals(*RESTARTS.keys) { |signals| signals.each { |name| explain(name) } } }
          tell_manager(task, server) if @manager.present?
          yield
          @manager.ready
        end
      ensure
        close
      end

      def close
        listeners.each(&:close)
        @pidfile&.remove
      end

      private

      def listeners = @sockets.listeners

      def open
        @sockets.open(@endpoints, inherited: @inherited).each { |socket| @sockets.adopt(socket) }
        @privileges.making(@pidfile.path) { @pidfile.write } if @pidfile
      rescue StartError
        close
        raise
      end

      def explain(name)
        @log.info("#{name}: #{RESTARTS.fetch(name)} needs workers: start the server with --workers 1 or more")
      end

      def tell_manager(task, server)
        task.every(STATUS_S, "status") { @manager.status(status(server.stats)) }
        task.every(@manager.watchdog_s, "systemd's watchdog") { @manager.alive } if @manager.watchdog_s
      end

      def status(stats) = "#{stats[:running]} requests running, #{stats[:requests]} served, #{stats[:connections]} connections"
    end
  end
end
