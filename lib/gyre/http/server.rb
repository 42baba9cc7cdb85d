# frozen_string_literal: true

# Serves a Rack app over HTTP/1 and HTTP/2 on this thread's loop, under a native scheduler. Started
# by Gyre::Web::Server and tests. Binds no sockets and handles no signals.
# Gyre::HTTP::NativeAcceptor (C) holds the connections:
#
#   NativeAcceptor.new(sockets, handler, limits, template, contexts)
#       sockets    non-blocking listening IOs, which it never closes
#       handler    call(exchange): run in a pooled fiber for each complete or refused head; raises only SystemExit and SignalException.
#                  error(message): for the log. hijacked(socket, away). refused(exchange, env, status, reason): responds
#       template   Env.template, frozen
#       contexts   a Gyre::TLS::Context or nil for each socket; `contexts=`: for new connections
#   Before start:
#       expect_proxies(versions, ranges)   versions: for each socket 1, 2, 3 (1 or 2) or 0 (no PROXY
#         header); ranges: family, bits and 16 bytes of address of each allowed peer; empty: all
#       configure(shared, cancel_when_client_gone, extended_connect, exempt)
#         shared: other processes accept from these sockets, and the processes take turns;
#         cancel_when_client_gone: a client's reset raises Gyre::Stop in its request;
#         extended_connect: announces RFC 8441 to HTTP/2 clients;
#         exempt: nil or call(path), which never waits; true: a GET or HEAD needs no place
#   NativeAcceptor.map_shares (before forks), .place= (in each fork): a process yields to a process
#                    that has far fewer connections
#   start            accepts on the calling thread's loop
#   stop             accepts the kernel's queue, then stops; afterwards the sockets may be closed
#   drain            calls stop. Idle connections close, new connections have 0.25 s for a first
#                    byte, other connections close after their response, and WebSockets get 1001
#                    (a thousand a second)
#   interrupt(exception)   raises in each fiber of a handler or WebSocket; returns their number
#   close            stops, and closes all connections immediately
#   away=            number of open connections that have left the server (counted by workers' turns)
#   full?            the queue for places is full
#   take_place       waits in the queue of the requests; false if the queue is full, after
#                    queue_timeout_s, and in another thread
#   leave_place      once after each take_place that has returned true
#   used             Hash of the use of each budget: heads: input: output: files: places:
#   stats            Hash of counts: connections: idle: running: accepted: requests: …
#   measurements     Hash for /metrics: responses, durations, waits, lag, received_bytes, sent_bytes
#   oldest(limit)    Array of [env, seconds] of the longest running requests
#   Beyond limits.connections_limit a connection gets 503, and no handler runs. After EMFILE the
#   acceptor accepts no connection for a second.

require "forwardable"
require "gyre/http/exchange"
require "gyre/http/env"
require "gyre/http/thread_calls"
require "gyre/http/proxy_times"
require "gyre/http/rack2"
require "gyre/http/route"
require "gyre/net/tls"

module Gyre
  module HTTP
    # Serves one app; delegates to the acceptor.
    class Server
      extend Forwardable

      # Seconds that cancelled requests have to unwind before their connections are closed.
      UNWIND_S = 1.0
      # During shutdown, seconds without a write after which a streaming body counts as idle.
      QUIET_S = 1.0
      # Seconds between checks during shutdown.
      LOOK_S = 0.01
      PROXY_VERSIONS = { nil => 0, "v1" => 1, "v2" => 2, "any" => 3 }.freeze

      class ErrorLog
        def error(message) = $stderr.write("gyre: #{message.chomp}\n")
      end

      attr_reader :limits
      def_delegators :@acceptor, :used, :oldest, :full?, :interrupt, :stop, :drain, :close

      # Never closes `listeners`. `access_log` gets (env, status, body bytes, seconds) after each
      # request; the env of a refused head is incomplete. `tls` may be a Hash by listener.
      # `proxy_protocol` maps listeners to "v1", "v2" or "any"; `proxies` are the peers that may
      # send PROXY headers. A GET or HEAD needs no place if `exempt` returns true for its path.
      def initialize(app, listeners:, limits: Limits.new, log: ErrorLog.new, access_log: nil, env: {},
                     tls: nil, proxy_protocol: {}, proxies: [], early_hints: false, cancel_when_client_gone: false, exempt: nil,
                     extended_connect: false)
        Loop.require_native("the HTTP server")
        @open_responses = OpenResponses.new
        access_log = access_log.method(:log) if access_log.respond_to?(:log)
        @service = Service.new(RewindableInput.around(Rack2.around(app)), log: log, access_log: access_log, open_responses: @open_responses,
                                                                                proxy_times: @proxy_times = ProxyTimes.new)
        @listeners = listeners
        @limits = limits
        @contexts = contexts(tls)
        template = Env.template(early_hints: early_hints, extra: env)
        @acceptor = NativeAcceptor.new(@listeners.map(&:to_io), @service, limits, template, @contexts)
        expect_proxies(proxy_protocol, proxies)
        shared = @listeners.any? { |listener| listener.respond_to?(:adopted?) && listener.adopted? }
        @acceptor.configure(shared, cancel_when_client_gone, extended_connect, exempt)
      end

      # Accepts connections on this thread's loop. Raises RuntimeError if the native scheduler
      # is not in use, or on a second call.
      def start
        check_scheduler
        @service.watched = !Fiber.scheduler.watchdog.nil?
        @acceptor.start
        self
      end

      # Sets certificates, authorities and settings for new connections.
      def tls=(tls)
        contexts = contexts(tls)
        raise ArgumentError, "the same listeners as before need a context" unless contexts.map(&:nil?) == @contexts.map(&:nil?)

        @acceptor.contexts = @contexts = contexts
      end

      # Counts the hijacked connections too, of which the acceptor learns here.
      def stats = @acceptor.stats.merge!(away: @acceptor.away = @open_responses.away)

      # Runs the block in a place of `requests_limit`; without one if it waits too long.
      def with_place
        placed = @acceptor.take_place
        yield
      ensure
        @acceptor.leave_place if placed
      end

      # Number of event streams, upgraded and hijacked connections, which {#shutdown} ends at once.
      def endless = @open_responses.count

      # Drains, ends open-ended responses, waits for running requests, cancels the rest and closes.
      # Runs in a fiber of the loop. Returns true if no running request was cancelled.
      def shutdown(timeout_s)
        drain
        @open_responses.finish
        # `finished` is also true if there was no request to interrupt, only connections.
        finished = quiet_within?(timeout_s) || interrupt(Gyre::Stop.new("the server stops")).zero?
        quiet_within?(UNWIND_S) unless finished
        close
        @open_responses.close
        finished
      end

      # Returns the acceptor's measurements and the use of its budgets, for metrics.
      def measurements
        used = self.used
        bytes = %i[heads input output]
        @acceptor.measurements.merge(
          "buffered_bytes" => bytes.to_h { |name| [name.to_s, used[name]] },
          "buffered_bytes_limit" => bytes.to_h { |name| [name.to_s, @limits.public_send(:"#{name}_bytes_limit")] },
          "proxies" => @proxy_times.snapshot, "files" => used[:files], "files_limit" => @limits.files_limit
        )
      end

      private

      def contexts(tls)
        contexts = @listeners.map { |listener| TLS.context(tls.is_a?(Hash) ? tls[listener] : tls, server: true) }
        # Loaded now and not during a request, for Env.client_certificate.
        require "openssl" if contexts.any? { |context| context&.verifies? }
        contexts
      end

      def expect_proxies(protocols, proxies)
        versions = @listeners.map { |listener| PROXY_VERSIONS.fetch(protocols[listener]) }
        return if versions.all?(&:zero?)

        @acceptor.expect_proxies(versions, proxies.map { |range| [range.family, range.prefix, range.hton].pack("CCa16") }.join)
      end

      def check_scheduler
        scheduler = Fiber.scheduler
        return if scheduler.is_a?(Scheduler) && !scheduler.is_a?(Scheduler::Portable)

        raise "an HTTP server needs a thread with a Gyre::Scheduler of the native engine, and here is " \
              "#{scheduler.is_a?(Scheduler) ? "one of the portable engine" : scheduler&.class || "none"}"
      end

      def quiet_within?(seconds)
        deadline = Clock.now + seconds
        look = Clock.now
        until quiet?
          return false if Clock.now >= deadline

          if Clock.now >= look
            @open_responses.finish_quiet
            look += QUIET_S
          end
          sleep(LOOK_S)
        end
        true
      end

      def quiet?
        stats = self.stats
        stats[:connections].zero? && stats[:running].zero? && stats[:upgraded].zero?
      end
    end
  end
end
