# frozen_string_literal: true

# A whole web server: its sockets, its logs, its signals, and its end. `gyre serve`, the Rackup
# handler and programs that embed Gyre make one. HTTP itself is Gyre::HTTP::Server's; flags and
# files are Gyre::CLI::Serve's.
#
#   new ── listen ──► LISTENING ── run ──► SERVING ── stop, INT, TERM ──► DRAINING ── all served ──► ended
#                                             │                              │ time over: cancelled ──►  │
#                                             └── stop(now: true) ───────────┴── second signal ─────────►┘
#
# What the app has left running beside its requests (Fiber.schedule, Async) is cancelled at the end,
# if the loop is the server's own.

require "gyre"
require "gyre/net/units"
require "gyre/http"
require "gyre/web/access_log"
require "gyre/web/blocking"
require "gyre/web/commands"
require "gyre/web/control_server"
require "gyre/web/database_pool"
require "gyre/web/holds"
require "gyre/web/isolation"
require "gyre/web/layers"
require "gyre/web/log"
require "gyre/web/rack_timeout"
require "gyre/web/rescue_responses"
require "gyre/web/settings"
require "gyre/web/snapshot"
require "gyre/web/task_signal"
require "gyre/web/tls_contexts"
require "gyre/signals"

module Gyre
  module Web
    # Serves one Rack app; used once.
    #
    #   server = Gyre::Web::Server.new(app, bind: "tcp://127.0.0.1:0").start
    #   server.urls # => ["http://127.0.0.1:41235"]
    #   server.stop
    #   server.wait
    class Server
      # How long fibers that the app left behind may take to unwind.
      UNWIND_S = 1.0
      private_constant :UNWIND_S

      # @return [Gyre::HTTP::Limits]
      attr_reader :limits

      # @param app [#call] a Rack app
      # @param bind [String, Integer, Gyre::Endpoint, Array] as {Gyre::Endpoint.parse} reads it, one
      #   or several; ssl://host:port?cert=PATH&key=PATH for TLS
      # @param tls [true, Hash, Array<Hash>, nil] certificates for addresses with TLS that have none
      #   of their own, by the names in docs/serve.md; true: one for development
      # @param limits [Hash, Gyre::HTTP::Limits] by the names in docs/serve.md
      # @param log_format [String] the access log: none, common, combined, json, or fields of one's
      #   own (see LogFormat.named)
      # @param out [IO] where the access log goes
      # @param access_log [String, nil] a file that it goes to instead
      # @param log [#info, #error] takes the server's notices and errors; by default errors only, to
      #   $stderr
      # @param shutdown_timeout [Numeric] seconds that running requests get to finish
      # @param signals [Boolean, Array<String>, nil] whether INT and TERM stop it, or which of the
      #   two; nil: both, but only when it runs on the main thread
      # @param listeners [Array<Gyre::Listener>, nil] open already; instead of what bind names
      # @param before_stop [#call, nil] called on the loop when it is to stop, while it still takes
      #   connections
      # @param cancel_when_client_gone [String] see HTTP::Server#initialize
      # @param watchdog [Boolean] whether the log has Holds and ThreadVariables
      # @param layers [Hash] static, sendfile, compress, … (see Layers#initialize)
      # @param metrics [Array<String>] addresses for /metrics and /status (see
      #   ControlServer.endpoint)
      # @param abandon [#call, nil] called last when requests go on although they were cancelled, to
      #   end the process; without it {#run} waits for them
      # @raise [ArgumentError]
      # @raise [ExtensionRequired] without the C extension
      def initialize(app, bind: "tcp://localhost:#{Settings::DEFAULT_PORT}", tls: nil, limits: {}, log_format: "none", out: $stdout,
                     access_log: nil, log: Log.new, shutdown_timeout: Settings::SHUTDOWN_TIMEOUT_S, signals: nil,
                     abandon: nil, listeners: nil, before_stop: nil, metrics: [], cancel_when_client_gone: "none", watchdog: false, **layers)
        raise ArgumentError, "a Rack app responds to call, and #{app.class} does not" unless app.respond_to?(:call)

        Loop.require_native("the HTTP server")
        @log = log
        @layers = Layers.new(app, log: log, unready: method(:unready), **layers)
        @access_log = access_log(log_format, access_log, out)
        @tls = TLSContexts.new(tls && Settings.check(:tls, tls.is_a?(Hash) ? [tls] : tls), log: log)
        @endpoints = listeners ? @tls.endpoints(listeners.map(&:endpoint)) : addresses(bind)
        @limits = limits.is_a?(HTTP::Limits) ? limits : HTTP::Limits.new(**limits)
        @follows_pool = limits.is_a?(Hash) && !limits.key?(:requests_limit)
        @cancel_when_client_gone = cancel_when_client_gone
        @watches = watchdog
        @shutdown_timeout_s = Settings.check(:shutdown_timeout, shutdown_timeout)
        @signals = signals
        @abandon = abandon
        @commands = Commands.new(:stop, :stop_now, :hang_up, :ended)
        @broken = false
        @before_stop = before_stop
        @given = listeners
        @listeners = []
        @metrics = ControlServer.new(Control.new(self), bind: metrics, log: log)
        @started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      # Opens the sockets. From here on clients can connect; they are served when it runs. {#run}
      # and {#start} do it if it was not done.
      #
      # @return [self]
      # @raise [SystemCallError, SocketError] the message names the address; none is open then
      # @raise [StartError] the app cannot run on a server whose requests share a thread (see
      #   Isolation)
      def listen
        return self unless @listeners.empty?

        Isolation.apply(@log)
        RackTimeout.apply
        RescueResponses.apply
        @limits = DatabasePool.apply(@limits, @log) if @follows_pool
        @contexts = @tls.contexts(@endpoints)
        @tls.warn(@contexts.values)
        @given ? @listeners.concat(@given) : @endpoints.each { |endpoint| @listeners.concat(endpoint.bind) }
        @metrics.listen
        self
      rescue SystemCallError, SocketError, StartError
        close
        raise
      end

      # @return [Array<Gyre::Endpoint>] what it listens on, with the ports that the kernel chose
      def endpoints = @tls.endpoints(@listeners.map(&:endpoint))

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
        handle_signals do
          in_task do
            watchdog = Holds.watch(@log) if @watches
            ThreadVariables.watch(@log) if @watches
            @http = HTTP::Server.new(app_as_logged, listeners: @listeners, limits: @limits, log: @log, access_log: @access_log,
                                            tls: secure_listeners, proxy_protocol: proxied_listeners,
                                            proxies: @layers.proxies, exempt: @layers.exempt, files: @layers.files, **@layers.offered,
                                            cancel_when_client_gone: @cancel_when_client_gone, env: { "gyre.server" => self, **@layers.env })
            @scheduler = Fiber.scheduler
            @commands.start
            @http.start
            @metrics.start
            yield self if block_given?
            serve
            served = true
          ensure
            each_of(-> { @commands.stop }, -> { break_off unless served }, -> { @metrics.close }, -> { watchdog&.stop })
          end
        end
      ensure
        each_of(-> { @commands.stop }, -> { @http&.close }, -> { close })
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
      def stop(now: false) = @commands.post(now ? :stop_now : :stop)

      # Reads certificates, keys, authorities and OCSP responses again, for connections that come
      # from now on; those that are open go on as they are. Where something is wrong all of the old
      # ones stay, and the log has the reason. HUP does it. From any thread.
      #
      # @return [Boolean] whether they are in use; true also without TLS
      def reload_tls
        return true if @contexts.nil? || @contexts.empty?

        contexts = @tls.contexts(@endpoints)
        @contexts = contexts
        @http.tls = secure_listeners if @http
        @log.info("Certificates were read again")
        @tls.warn(contexts.values)
        true
      rescue StartError => error
        @log.error("#{error.message}. The certificates in use stay")
        false
      end

      # @return [Time, nil] when the first of the certificates in use ends; nil without TLS
      def certificate_expires
        (@contexts || {}).each_value.flat_map { |context| [context, *context.names.values] }.map(&:not_after).min
      end

      # Asks it to open its log files again and to read again what else may have changed beside the
      # app, as HUP does; from any thread or signal handler. Returns at once.
      #
      # @return [void]
      def reload = @commands.post(:hang_up)

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

      # Gives back everything that {#listen} took, for a server that shall not run after all. {#run}
      # does it at its end.
      #
      # @return [void]
      def close
        close_listeners
        @metrics.close
        @access_log&.close
        @layers.close
        @commands.close
      end

      # @return [Hash{Symbol => Integer}] connections:, idle:, running:, accepted:, requests: …; all
      #   0 before it runs
      def stats = @http ? @http.stats : HTTP::Server::NOT_STARTED

      # @return [Integer] lines of the access log that were dropped because too many waited
      def dropped_log_lines = @access_log ? @access_log.dropped : 0

      # What the server is doing, as JSON has it: for metrics, `gyre top` and a supervisor. From any
      # thread.
      #
      # @return [Hash{String => Object}] (see Snapshot)
      def snapshot = Snapshot.take(self, @http, @scheduler, Process.clock_gettime(Process::CLOCK_MONOTONIC) - @started)

      # @return [Hash{String => Hash}] the same as of a supervisor that has workers
      def snapshots = { "0" => snapshot }

      private

      def addresses(bind)
        @tls.endpoints((bind.is_a?(Array) ? bind : [bind]).map { |address| TLSSettings.endpoint(address) }).uniq
      end

      # In the task that calls, if there is one: a child would be stopped together with it, and
      # before it.
      def in_task(&block)
        return block.call if Task.current?

        Gyre.run do |task|
          block.call
        ensure
          cancel_fibers(task)
        end
      end

      # Without this a loop in a fiber that the app has scheduled would keep the process for ever.
      def cancel_fibers(task)
        scheduler = Fiber.scheduler
        first = true
        deadline = Clock.now + UNWIND_S
        loop do
          others = scheduler.waits.map(&:fiber) - [Fiber.current, task.fiber]
          return if others.empty?

          others.each { |fiber| scheduler.fiber_interrupt(fiber, Gyre::Stop.new("the server has stopped")) } if first
          first = false
          return give_up("#{others.size} cancelled fibers of the app go on") if Clock.now > deadline

          sleep(0.01)
        end
      end

      # @return [String, nil] why no more requests should come here
      def unready = @stopping ? "the server stops" : ("too many requests are waiting" if @http&.full?)

      def app_as_logged
        @access_log&.response_headers? ? LogTemplate::ResponseHeaders.new(@layers.app) : @layers.app
      end

      def access_log(format, path, out)
        return if format.to_s == "none"

        AccessLog.new(format, out: path ? LogFile.new(path) : out, log: @log)
      end

      # The first signal lets requests finish, the second does not. A third, or one while the server
      # breaks off, is raised. What keeps the loop from hearing of a signal at all, an app that
      # computes without end, meets the guard of each.
      def handle_signals(&block)
        return yield unless @signals.nil? ? Thread.current == Thread.main : @signals

        names = @signals.is_a?(Array) ? @signals : %w[INT TERM]
        count = 0
        thread = Thread.current
        on_signal = lambda do |name|
          count += 1
          raise Interrupt, name if count > 2 || @broken

          stop(now: count > 1)
          @commands.watch(thread, count > 1 ? 0 : @shutdown_timeout_s) { |event| not_heard(event) }
        end
        Signals.handle(names, on_signal) do
          TaskSignal.handle { names.include?("INT") ? heed_hang_up(&block) : yield }
        end
      end

      # A person or logrotate sends HUP for a restart or for log files to be opened again; the
      # kernel sends it at a terminal's end. A handler of the program's own stays.
      def heed_hang_up(&block)
        former = Signal.trap("HUP", "DEFAULT")
        Signal.trap("HUP", former || "SYSTEM_DEFAULT")
        return yield unless former == "DEFAULT"

        terminal = [$stdin, $stdout, $stderr].find { |io| io.respond_to?(:tty?) && io.tty? }
        # A terminal that is gone is none any more.
        on_signal = ->(_name) { @commands.post(terminal.nil? || terminal.tty? ? :hang_up : :stop) }
        Signals.handle(%w[HUP], on_signal, &block)
      end

      # Each step is taken although the one before is left by an exception: the guard's may come at
      # any moment, and a metrics server that is left open keeps the loop from its end.
      def each_of(step, *others)
        step.call
      ensure
        each_of(*others) if others.any?
      end

      # The run is left by an exception: one that was raised for this thread, or the end of the
      # task. No request stays behind.
      def break_off
        @broken = true
        quit_listening
        return unless @http

        @http.shutdown(0)
        give_up("#{@http.stats[:running]} cancelled requests go on") if @http.stats[:running].positive?
      end

      # From a thread of the guard's.
      def not_heard(event)
        return give_up("a request that computes goes on") if event == :still

        @log.error("a request computes and keeps the server from stopping; it is cancelled")
        stop(now: true)
      end

      def take_message = @commands.take.tap { |message| hang_up if message == :hang_up }

      # @return [Hash{Listener => String}]
      def proxied_listeners
        @listeners.zip(endpoints).to_h { |listener, endpoint| [listener, endpoint.proxy_protocol] }.compact
      end

      # @return [Hash{Listener => TLS::Context}]
      def secure_listeners
        @listeners.zip(endpoints).to_h { |listener, endpoint| [listener, @contexts[endpoint.tls]] }.compact
      end

      def hang_up
        reopened = reopen_logs
        return reload_tls unless @contexts.empty?
        return if reopened

        @log.info("HUP: nothing is opened or loaded again, for logs go to standard output and standard error. TERM ends the server")
      end

      def serve
        message = take_message until %i[stop stop_now].include?(message)
        gently = message == :stop
        @stopping = true
        @before_stop&.call
        quit_listening
        @log.info(gently ? farewell : "Stopping at once")
        ending = shutdown(gently ? @shutdown_timeout_s : 0)
        until (message = take_message) == :ended
          next unless message == :stop_now

          ending.stop
          ending = shutdown(0)
          @log.info("Stopping at once")
        end
        @log.info(ending.wait ? "Stopped" : "Stopped. What still ran was cancelled")
        give_up("#{@http.stats[:running]} cancelled requests go on") if @http.stats[:running].positive?
      end

      # An app may rescue its cancellation and go on; no fiber can be ended against its will.
      def give_up(what)
        @log.error("#{what}; an app must not rescue Gyre::Stop without raising it again")
        @access_log&.close
        @abandon&.call
      end

      # @return [Gyre::Task] true when no request had to be cancelled
      def shutdown(timeout_s)
        Task.current.async("shutdown") do
          @http.shutdown(timeout_s)
        ensure
          @commands.post(:ended)
        end
      end

      def farewell
        count = @http.stats[:running] - @http.endless
        return "Stopping" unless count.positive?

        "Stopping. #{Units.count(count, "request")} may finish within #{@shutdown_timeout_s} s; " \
          "Ctrl-C again stops at once"
      end

      # In an order in which the kernel resets no connection that it has taken for us.
      def quit_listening
        @listeners.each(&:refuse)
        @http&.stop
        close_listeners
      end

      def close_listeners = @listeners.each(&:close)
    end
  end
end
