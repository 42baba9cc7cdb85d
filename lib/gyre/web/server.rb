# frozen_string_literal: true

# A whole web server: its sockets, its logs and its end. `gyre serve`, the Rackup handler and
# programs that embed Gyre make one. HTTP itself is HTTP::Server's, a run and its end are
# Lifetime's, flags and files CLI::Serve's.

require "gyre"
require "gyre/http"
require "gyre/web/access_log"
require "gyre/web/blocking"
require "gyre/web/control/server"
require "gyre/web/control/snapshot"
require "gyre/web/frameworks/database_pool"
require "gyre/web/frameworks/isolation"
require "gyre/web/frameworks/rack_timeout"
require "gyre/web/frameworks/rescue_responses"
require "gyre/web/layers"
require "gyre/web/lifetime"
require "gyre/web/listening"
require "gyre/web/log"
require "gyre/web/logs/watchdog_log"
require "gyre/web/settings"

module Gyre
  module Web
    # Serves one Rack app; used once.
    #
    #   server = Gyre::Web::Server.new(app, bind: "tcp://127.0.0.1:0").start
    #   server.urls # => ["http://127.0.0.1:41235"]
    #   server.stop
    #   server.wait
    class Server
      # @return [Gyre::HTTP::Limits]
      attr_reader :limits

      # @param app [#call] a Rack app
      # @param bind [String, Integer, Gyre::Endpoint, Array] as {Gyre::Endpoint.parse} reads it, one
      #   or several; ssl://host:port?cert=PATH&key=PATH for TLS
      # @param tls [true, Hash, Array<Hash>, nil] certificates for addresses with TLS that have none
      #   of their own, by the names in docs/serve.md; true: one for development
      # @param limits [Hash, Gyre::HTTP::Limits] by the names in docs/serve.md
      # @param out [IO] where the access log goes
      # @param log [#info, #error] takes the server's notices and errors; by default errors only, to
      #   $stderr
      # @param signals [Boolean, Array<String>, nil] whether INT and TERM stop it, or which of the
      #   two; nil: both, but only when it runs on the main thread
      # @param listeners [Array<Gyre::Listener>, nil] open already; instead of what bind names
      # @param before_stop [#call, nil] called on the loop when it is to stop, while it still takes
      #   connections
      # @param abandon [#call, nil] called last when requests go on although they were cancelled, to
      #   end the process; without it {#run} waits for them
      # @param settings [Hash] the others of docs/configuration.md: static, log_format, metrics, …
      # @raise [ArgumentError] names what is wrong
      # @raise [ExtensionRequired] without the C extension
      def initialize(app, bind: "tcp://localhost:#{Addresses::DEFAULT_PORT}", tls: nil, limits: {}, out: $stdout, log: Log.new, signals: nil,
                     abandon: nil, listeners: nil, before_stop: nil, **settings)
        raise ArgumentError, "a Rack app responds to call, and #{app.class} does not" unless app.respond_to?(:call)

        Loop.require_native("the HTTP server")
        @log = log
        settings = SERVER_SETTINGS.complete(settings)
        @layers = Layers.new(app, log: log, unready: method(:unready), **settings)
        @access_log = access_log(settings[:log_format], settings[:access_log], out)
        @listening = Listening.new(bind: bind, tls: tls, given: listeners, log: log)
        @limits = HTTP::Limits.from(limits)
        @follows_pool = limits.is_a?(Hash) && !limits.key?(:requests_limit)
        @cancels = settings[:cancel_when_client_gone]
        @watches = settings[:watchdog]
        @lifetime = Lifetime.new(log: log, shutdown_timeout_s: settings[:shutdown_timeout], signals: signals, before_stop: before_stop,
                                 hang_up: method(:hang_up), abandon: -> { [@access_log&.close, abandon&.call] })
        @metrics = ControlServer.new(ControlApp.new(self), bind: settings[:metrics], log: log)
      end

      # Opens the sockets. From here on clients can connect; they are served when it runs. {#run}
      # and {#start} do it if it was not done.
      #
      # @return [self]
      # @raise [SystemCallError, SocketError] the message names the address; none is open then
      # @raise [StartError] the app cannot run on a server whose requests share a thread (see
      #   Isolation)
      def listen
        return self if @listening.open?

        Isolation.apply(@log)
        RackTimeout.apply
        RescueResponses.apply
        @limits = DatabasePool.apply(@limits, @log) if @follows_pool
        @listening.open
        @metrics.listen
        @http = http
        self
      rescue SystemCallError, SocketError, StartError
        close
        raise
      end

      # @return [Array<Gyre::Endpoint>] what it listens on, with the ports that the kernel chose
      def endpoints = @listening.endpoints

      # @return [Array<String>] the same as one types it
      def urls = endpoints.map(&:url)

      # @return [Array<String>] where its metrics are
      def metrics_urls = @metrics.urls

      # Serves until it is stopped. Inside Gyre.run other tasks go on meanwhile.
      #
      # @yield [self] once it serves
      # @return [void]
      # @raise [SystemCallError, SocketError] (see #listen)
      def run
        listen
        watchdog = nil
        finish = -> { Lifetime.each_of(@metrics.method(:close), -> { watchdog&.stop }) }
        @lifetime.run(@http, @listening, finish: finish) do
          watchdog = watch if @watches
          @http.start
          @metrics.start
          yield self if block_given?
        end
      ensure
        close
      end

      # Runs in a thread of its own; returns as soon as it listens.
      #
      # @return [self]
      # @raise [SystemCallError, SocketError] (see #listen)
      def start
        listen
        @thread = Thread.new { run }
        @thread.name = "gyre web server"
        @thread.report_on_exception = false # wait raises it
        self
      end

      # Asks it to end, from any thread or signal handler; returns at once. No connection is
      # accepted any more; running requests may finish for the shutdown timeout, then they are
      # cancelled.
      #
      # @param now [Boolean] cancel them at once
      # @return [void]
      def stop(now: false) = @lifetime.post(now ? :stop_now : :stop)

      # Reads certificates, keys, authorities and revocation lists again, for connections that come
      # from now on; open ones go on as they are. If something is wrong, all of the old ones stay,
      # and the log has the reason. HUP does it. From any thread.
      #
      # @return [Boolean] whether they are in use; true also without TLS
      def reload_tls
        return true unless @listening.secure?

        @listening.reload { |contexts| @http.tls = contexts }
      end

      # @return [Time, nil] when the first of the certificates in use ends; nil without TLS
      def certificate_expires = @listening.certificate_expires

      # Asks it to open its log files again and to read again what else may have changed beside the
      # app, as HUP does; from any thread or signal handler. Returns at once.
      #
      # @return [void]
      def reload = @lifetime.post(:hang_up)

      # Opens the access log's file again, after a rotation. When that cannot be done, the old file
      # stays in use, and the log has the reason. HUP does it.
      #
      # @return [Boolean] false: it has no file
      def reopen_logs
        return false unless @access_log&.reopen

        @log.info("The access log was opened again")
        true
      rescue SystemCallError => error
        @log.error("the access log cannot be opened again, the old file stays: #{error.message}")
        true
      end

      # After {#start}: waits for the end.
      #
      # @param timeout_s [Numeric, nil]
      # @return [Boolean] false when the time was over first
      # @raise what ended the server, if it was not asked to
      def wait(timeout_s = nil)
        !@thread&.join(timeout_s).nil?
      end

      # Gives back everything that {#listen} took, for a server that will not run after all. {#run}
      # does it at its end.
      #
      # @return [void]
      def close
        Lifetime.each_of(-> { @http&.close }, *[@listening, @metrics, @access_log, @layers, @lifetime].compact.map { |part| part.method(:close) })
      end

      # @return [Hash{Symbol => Integer}] connections:, idle:, running:, accepted:, requests: …;
      #   all 0 before it listens
      def stats = @http ? @http.stats : HTTP::Server::NOT_STARTED

      # @return [Integer] lines of the access log that were dropped because too many waited
      def dropped_log_lines = @access_log ? @access_log.dropped : 0

      # The server's state, as JSON has it: for metrics, `gyre top` and a supervisor. From any
      # thread.
      #
      # @return [Hash{String => Object}] (see Snapshot)
      def snapshot = Snapshot.take(self, @http, @lifetime)

      # @return [Hash{String => Hash}] the same as of a supervisor that has workers
      def snapshots = { "0" => snapshot }

      private

      def http
        app = @access_log&.response_headers? ? LogFormat::ResponseHeaders.new(@layers.app) : @layers.app
        HTTP::Server.new(app, listeners: @listening.listeners, limits: @limits, log: @log, access_log: @access_log,
                              tls: @listening.contexts, proxy_protocol: @listening.proxy_protocol, proxies: @layers.proxies,
                              exempt: @layers.exempt, files: @layers.files, **@layers.offered, cancel_when_client_gone: @cancels,
                              env: { "gyre.server" => self, **@layers.env })
      end

      def access_log(format, path, out)
        return if format.nil? || format == "none"

        AccessLog.new(format, out: path ? LogFile.new(path) : out, log: @log)
      end

      def watch
        ThreadVariables.watch(@log)
        WatchdogLog.watch(@log)
      end

      # Why no more requests should come here.
      def unready = @lifetime.stopping? ? "the server stops" : ("too many requests are waiting" if @http&.full?)

      def hang_up
        reopened = reopen_logs
        return reload_tls if @listening.secure?
        return if reopened

        @log.info("HUP: nothing is opened or loaded again, for logs go to standard output and standard error. TERM ends the server")
      end
    end
  end
end
