# frozen_string_literal: true

# `gyre serve` without workers: what the one process does beside serving: sockets, pidfile, another
# user, systemd, and signals that are for a server with workers. Gyre::CLI::Serve makes one; the
# serving is Gyre::Web::Server's.

require "gyre/cli/pidfile"
require "gyre/cli/privileges"
require "gyre/cli/service_manager"
require "gyre/signals"
require "gyre/web/sockets"

module Gyre
  module CLI
    # One start of one process.
    class ServeAlone
      # What they would do with workers.
      RESTARTS = { "USR1" => "a rolling restart", "USR2" => "a hot restart", "TTIN" => "a worker more", "TTOU" => "a worker fewer" }.freeze
      STATUS_S = 1
      private_constant :STATUS_S

      # @param settings [Hash] as {Gyre::Web::Settings} has them
      # @param endpoints [Array<Gyre::Endpoint>]
      # @param chosen [Boolean] whether they are from the settings, and not the default
      # @param log [#info, #error]
      # @raise [StartError]
      def initialize(settings, endpoints:, chosen:, log:)
        if settings[:state]
          raise StartError, "--state is for a server with workers (-w 1 or more): `gyre ctl` commands those. --metrics shows one process"
        end

        @log = log
        @pidfile = Pidfile.new(settings[:pidfile]) if settings[:pidfile]
        @privileges = Privileges.new(*settings.values_at(:user, :group))
        @manager = ServiceManager.new
        @sockets = Web::Sockets.new(making: @privileges.method(:making))
        @inherited = Web::Sockets.activated
        @endpoints = @inherited.any? && !chosen ? [] : endpoints
      end

      # Opens the sockets and becomes another user, if that is asked for: the app is loaded as that
      # one. Without, the app is loaded first, so that its mistakes are found before a port is
      # taken.
      #
      # @yieldreturn [#call] the app
      # @return [#call] the same
      # @raise [StartError, SystemCallError, SocketError]
      def prepare
        return yield.tap { open } unless @privileges.wanted?

        open
        @privileges.drop
        yield
      end

      # @return [Hash{Symbol => Object}] for Gyre::Web::Server.new
      def options = { listeners: listeners, before_stop: @manager.method(:stopping) }

      # Serves until a signal ends it.
      #
      # @param server [Gyre::Web::Server] of these listeners
      # @yield when it serves
      # @return [void]
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

      # @return [void]
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
