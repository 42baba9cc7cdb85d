# frozen_string_literal: true

# A complete web server: sockets, layers, logs, shutdown. Made by `gyre serve`, the Rackup handler
# and embedding programs. HTTP::Server handles HTTP; Lifetime handles start and stop.

require "gyre/web/access_log"
require "gyre/web/blocking"
require "gyre/web/control/server"
require "gyre/web/control/snapshot"
require "gyre/web/frameworks/cable"
require "gyre/web/frameworks/database_pool"
require "gyre/web/frameworks/isolation"
require "gyre/web/frameworks/rack_timeout"
require "gyre/web/layers"
require "gyre/web/lifetime"
require "gyre/web/listening"
require "gyre/web/server_log"
require "gyre/web/watchdog_log"

module Gyre
  module Web
    # Serves one Rack app. Runs only once.
    #
    #   server = Gyre::Web::Server.new(app, bind: "tcp://127.0.0.1:0").start
    #   server.urls # => ["http://127.0.0.1:41235"]
    #   server.stop
    #   server.wait
    class Server
      # @return [Gyre::HTTP::Limits]
      attr_reader :limits

      # @param app [#call] a Rack app
      # @param bind [String, Integer, Gyre::Endpoint, Array] for {Gyre::Endpoint.parse}
      # @param tls [true, Hash, Array<Hash>, nil] see docs/serve.md; true: for development
      # @param limits [Hash, Gyre::HTTP::Limits] by the names in docs/serve.md
      # @param out [IO] receives the access log
      # @param log [#info, #error] the server's messages; default: errors, to $stderr
      # @param signals [Boolean, Array<String>, nil] whether INT and TERM stop it
      # @param listeners [Array<Gyre::Listener>, nil] open ones, in place of bind
      # @param before_stop [#call, nil] called on the loop before the end
      # @param manager [#reloading, #stopping, nil] is told of reloads and of the end
      # @param abandon [#call, nil] called last, if cancelled requests continue; nil: {#run} waits
      # @param acme [Object, nil] the store of certificates that `gyre serve` orders
      # @param settings [Hash] others of docs/configuration.md: static, log_format, metrics, …
      # @raise [ArgumentError] names what is wrong
      # @raise [ExtensionRequired] without the C extension
      def initialize(app, bind: "tcp://localhost:#{Addresses::DEFAULT_PORT}", tls: nil, limits: {}, out: $stdout, log: ServerLog.new, signals: nil,
                     abandon: nil, listeners: nil, before_stop: nil, manager: nil, acme: nil, **settings)
        raise ArgumentError, "a Rack app responds to call, and #{app.class} does not" unless app.respond_to?(:call)

        Loop.require_native("the HTTP server")
        @log = log
        settings = SERVER_SETTINGS.complete(settings)
        @acme = acme
        @layers = Layers.new(app, log: log, unready: method(:unready), tls: tls, acme: acme, port: -> { endpoints.find(&:tls)&.port }, **settings)
        @access_log = access_log(settings[:log_format], settings[:access_log], out)
        @listening = Listening.new(bind: bind, tls: tls, given: listeners, log: log, challenges: acme&.folder)
        @limits = HTTP::Limits.from(limits)
        @follows_pool = limits.is_a?(Hash) && !limits.key?(:requests_limit)
        @cancels = settings[:cancel_when_client_gone]
        @watches = settings[:watchdog]
        @lifetime = Lifetime.new(log: log, shutdown_timeout_s: settings[:shutdown_timeout], signals: signals, before_stop: before_stop,
                                 manager: manager, hang_up: method(:hang_up),
                                 abandon: -> { [@access_log&.close, abandon&.call] })
        @metrics = ControlServer.new(ControlApp.new(self), bind: settings[:metrics], log: log)
      end

      # Opens the sockets; clients can connect before the server runs. {#run} and {#start} call it.
      # @return [self]
      # @raise [SystemCallError, SocketError] the message names the address; no socket stays open
      # @raise [StartError] the app cannot share a thread between requests (Isolation)
      def listen
        return self if @listening.open?

        Isolation.apply(@log)
        RackTimeout.apply
        RescueResponses.apply
        Cable.apply(@log) if Loop.native?
        @limits = DatabasePool.apply(@limits, @log) if @follows_pool
        @listening.open
        @metrics.listen
        @http = http
        self
      rescue SystemCallError, SocketError, StartError
        close
        raise
      end

      # @return [Array<Gyre::Endpoint>] listening addresses with their ports
      def endpoints = @listening.endpoints

      # @return [Array<String>] the same addresses as URLs
      def urls = endpoints.map(&:url)

      # @return [Array<String>]
      def metrics_urls = @metrics.urls

      # Serves until stopped. Within Gyre.run other tasks run at the same time.
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

      # Runs the server in a new thread; returns once the server listens.
      # @return [self]
      # @raise [SystemCallError, SocketError] (see #listen)
      def start
        listen
        @thread = Thread.new { run }
        @thread.name = "gyre web server"
        @thread.report_on_exception = false # wait raises it
        self
      end

      # Makes the server end. Requests that still run after the shutdown timeout are cancelled. Any
      # thread or signal handler may call it.
      # @param now [Boolean] cancels requests at once
      # @return [void]
      def stop(now: false) = @lifetime.stop(now: now)

      # Reloads certificates, keys, authorities and revocation lists for new connections, like HUP.
      # On an error, keeps the old files' content and logs the reason. Any thread may call it.
      # @return [Boolean] false after an error
      def reload_tls
        return true unless @listening.secure?

        @listening.reload { |contexts| @http.tls = contexts }
      end

      # @return [Time, nil] when the first certificate in use expires; nil if there is none
      def certificate_expires = @listening.certificate_expires

      # Reopens and reloads files soon, like HUP. Any thread or signal handler may call it.
      # @return [void]
      def reload = @lifetime.reload

      # Reopens the access log's file, like HUP. Logs an error; keeps the old file if opening fails.
      # @return [Boolean] false if the log has no file
      def reopen_logs
        return false unless @access_log&.reopen

        @log.info("The access log was opened again")
        true
      rescue SystemCallError => error
        @log.error("the access log cannot be opened again: #{error.message}")
        true
      end

      # Waits until a server that {#start} runs has ended.
      # @param timeout_s [Numeric, nil]
      # @return [Boolean] false after the timeout
      # @raise the error that ended the server
      def wait(timeout_s = nil) = !@thread&.join(timeout_s).nil?

      # Releases everything that {#listen} has opened. {#run} calls it at its end.
      # @return [void]
      def close
        Lifetime.each_of(-> { @http&.close }, *[@listening, @metrics, @access_log, @layers].compact.map { |part| part.method(:close) })
      end

      # @return [Boolean] whether it takes no more connections, and ends after its last request
      def stopping? = @lifetime.stopping?

      # @return [Hash{Symbol => Integer}] connections:, idle:, running:, accepted:, requests: …
      def stats = @http ? @http.stats : Hash.new(0)

      # Counts the block's work among the requests that run at a time (`requests_limit`).
      # @api private
      def with_place(&) = @http.with_place(&)

      # @return [Integer] dropped lines of the access log
      def dropped_log_lines = @access_log ? @access_log.dropped : 0

      # Returns the server's state for metrics, `gyre top` and a supervisor. Any thread may call it.
      # @return [Hash{String => Object}] (see Snapshot)
      def snapshot
        Snapshot.take(self, @http, @lifetime).merge!("cache" => @layers.cache&.figures, **(@acme ? { "certificates_missing" => @acme.missing } : {}))
      end

      # @return [Hash{String => Hash}] as a supervisor with workers returns
      def snapshots = { "0" => snapshot }

      private

      def http
        app = @access_log&.response_headers? ? LogFormat::ResponseHeaders.new(@layers.app) : @layers.app
        HTTP::Server.new(app, listeners: @listening.listeners, limits: @limits, log: @log, access_log: @access_log,
                              tls: @listening.contexts, proxy_protocol: @listening.proxy_protocol, proxies: @layers.proxies,
                              exempt: @layers.exempt, **@layers.offered, cancel_when_client_gone: @cancels,
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

      # Returns why the server takes no more requests, or nil.
      def unready = @lifetime.stopping? ? "the server stops" : (("too many requests are waiting" if @http&.full?) || @acme&.unready)

      def hang_up
        reopened = reopen_logs
        return reload_tls if @listening.secure?
        return if reopened

        @log.info("HUP: nothing is opened or loaded again, for logs go to standard output and standard error. TERM ends the server")
      end
    end
  end
end
