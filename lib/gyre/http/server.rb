# frozen_string_literal: true

# An HTTP/1 server on the loop of this thread: listening sockets in, a Rack app behind.
# Gyre::Web::Server and tests start it; it needs a scheduler of the native engine. It binds nothing
# and handles no signal.
#
# The acceptor (Gyre::HTTP::NativeAcceptor, in C) is all of a server that has sockets:
#
#   NativeAcceptor.new(sockets, handler, limits, template, contexts, capacity)
#       sockets    Array of listening IOs (non-blocking); the acceptor never closes them
#       handler    responds to call(exchange): run in a pooled fiber of Fiber.scheduler whenever a connection has a complete
#                  head, or one to refuse. It never raises, except SystemExit, SignalException and the like. It also
#                  responds to error(message), one line for the log, to hijacked(socket), and to
#                  refused(env, status, body bytes sent, seconds) for each head that was refused
#       limits     Gyre::HTTP::Limits, read once
#       template   frozen Hash of env entries that are the same for each request (Gyre::HTTP::Env.template)
#       contexts   Array of a Gyre::TLS::Context or nil for each socket
#       capacity   a Capacity.new(limits): the places and budgets of the server, which its acceptors share
#   contexts=        others, for connections that are accepted from now on; each in the place of one
#   expect_proxies(versions, ranges)  before start: connections begin with a PROXY header; for each socket 1 for version 1, 2
#                    for version 2, 3 for either, 0 for none; the peers that are let in (family, bits, 16 bytes of address each;
#                    none: all)
#   departure=       the index in HTTP::DEPARTURES of what cancels a request whose client has left
#   extended_connect=(bool)  before start: HTTP/2 clients are told that they may open a WebSocket by CONNECT (RFC 8441)
#   exempt=          an Array of paths whose requests run at once, whatever limits.requests_limit is
#   files=           nil, or what responds to call(path): whether there is a file by that path, whose GET and HEAD run at once as
#                    well. It is asked on the loop, and does not wait
#   full?            the queue of requests is full
#   shared=(bool)    before start: other processes accept from the same sockets; connections are taken one by one, and later
#                    the more there are
#   map_shares, place=(number from 0 on)   of the class, before forks and in each fork: such processes know of each other, and one
#                    with far more connections than another leaves the next ones to that one for a while
#   start            accepts from now on, on the loop of the calling thread (Fiber.scheduler)
#   stop             accepts what the kernel has ready, and no more; may be called again. Connections go on. The sockets may be
#                    closed afterwards
#   drain            stop, and: idle connections close at once, unless bytes have arrived that are not read yet; those that
#                    never sent a byte have 0.25 s more for it, and close without a response; heads that are under way may be
#                    completed, and from now on no response keeps its connection
#   interrupt(exception) → Integer   scheduler.fiber_interrupt for each fiber that runs the handler now; how many they were
#   close            stop, and all connections close at once, whatever they do
#   stats → Hash     of Integers: connections: (open, without hijacked ones), idle: (those without a request under way),
#                    running: (fibers in the handler now, hijacked ones too), accepted:, requests:, malformed: (refused heads),
#                    waiting: (for their turn), waited:, shed: (requests that waited, and those that got 503),
#                    refused: (503, too many connections), handshakes: (of TLS, made), handshakes_resumed: (those of them that
#                    resumed a session), handshakes_failed: (those that failed, or did not end in time)
#   measurements → Hash of what JSON has, for /metrics: responses (by status class; "none": the client left before), durations and waits
#                    and lag (counts in NativeAcceptor.duration_bounds and beyond, sum_s), received_bytes, sent_bytes
#   oldest(limit) → Array of [env, seconds] for the requests that have been running for the longest time
#   Beyond limits.connections_limit a new connection gets the 503 and is closed, without a handler.
#   EMFILE and the like on accept: pause for a second, report it once through handler.error, go on.

require "gyre/errors"
require "gyre/http/exchange"
require "gyre/http/env"
require "gyre/http/handovers"
require "gyre/http/h1/hijacked_socket"
require "gyre/http/h1/hijacked_transport"
require "gyre/http/h2"
require "gyre/http/limits"
require "gyre/http/rack2"
require "gyre/http/service"
require "gyre/net/tls"

module Gyre
  module HTTP
    # See the head of this file.
    class Server
      # How long a cancelled request may take to unwind before its connection is closed under it.
      UNWIND_S = 1.0
      # A streaming body that sends nothing for so long while the server stops has nothing to send.
      QUIET_S = 1.0
      # How often shutdown looks whether the last request is done. Only a server that ends pays for
      # it.
      LOOK_S = 0.01
      # The {#stats} of a server that has not begun.
      NOT_STARTED = { connections: 0, idle: 0, running: 0, accepted: 0, requests: 0, malformed: 0, refused: 0, handshakes: 0,
                      handshakes_resumed: 0, handshakes_failed: 0, waiting: 0, waited: 0, shed: 0 }.freeze
      PROXY_VERSIONS = { nil => 0, "v1" => 1, "v2" => 2, "any" => 3 }.freeze
      private_constant :PROXY_VERSIONS, :UNWIND_S, :QUIET_S, :LOOK_S

      # Where a server without a log reports what went wrong.
      class ErrorLog
        # @param message [String]
        # @return [void]
        def error(message)
          $stderr.write("gyre: #{message.chomp}\n")
        end
      end

      # @return [Limits]
      attr_reader :limits
      # @return [Capacity] places and budgets; `used` has what of them is in use
      attr_reader :capacity

      # @param app [#call] a Rack app
      # @param listeners [Array<#to_io>] listening sockets, or Gyre::Listener objects; it never
      #   closes them
      # @param limits [Limits]
      # @param log [#error] takes a String: an app's exception with its trace, or a fault of the
      #   server
      # @param access_log [#log, #call, nil] given (env, status, body bytes sent, seconds) after
      #   each request; of one whose head was refused env has only REMOTE_ADDR and what was
      #   understood (REQUEST_METHOD, REQUEST_URI, SERVER_PROTOCOL)
      # @param scheme [String] rack.url_scheme
      # @param errors [#puts, #write, #flush] rack.errors
      # @param env [Hash{String => Object}] more entries of each request's env
      # @param tls [TLS::Context, Hash{#to_io => TLS::Context}, nil] of all listeners, or of those
      #   named (RFC 2818); their requests have rack.url_scheme "https" and HTTPS "on"
      # @param proxy_protocol [Hash{#to_io => String}] listeners whose connections begin with a
      #   header of the PROXY protocol: "v1", "v2" or "any". Others are refused, and REMOTE_ADDR is
      #   the address that the header names
      # @param proxies [Array<IPAddr>] peers that may connect to those; none: all
      # @param cancel_when_client_gone [String] one of {HTTP::DEPARTURES}: what cancels the request
      #   of a client, as Gyre::Stop at its present wait: "reset", that it has reset the connection;
      #   "closed", also that it has ended its side
      # @param exempt [Array<String>] paths whose requests wait for no place among
      #   limits.requests_limit: those that ask about the server itself
      # @param files [#call, nil] given the path of a GET or HEAD: whether it is a file's, which
      #   waits for no place either; it must not wait
      # @param early_hints [Boolean] whether env has rack.early_hints, by which the app sends a 103;
      #   some clients and proxies take that for the response (nginx before 1.29)
      # @param extended_connect [Boolean] whether HTTP/2 clients are told that CONNECT opens a
      #   WebSocket (RFC 8441); browsers then do not use HTTP/1.1 for it
      # @raise [ArgumentError] tls has no context of a server
      # @raise [ExtensionRequired] without the C extension
      def initialize(app, listeners:, limits: Limits.new, log: ErrorLog.new, access_log: nil, scheme: "http", errors: $stderr, env: {},
                     tls: nil, proxy_protocol: {}, proxies: [], cancel_when_client_gone: "none", exempt: [], files: nil,
                     early_hints: false, extended_connect: false)
        Loop.require_native("the HTTP server")
        @open_responses = OpenResponses.new
        access_log = access_log.method(:log) if access_log.respond_to?(:log)
        @service = Service.new(Rack2.around(app), log: log, access_log: access_log, open_responses: @open_responses)
        @listeners = Array(listeners)
        @sockets = @listeners.map(&:to_io)
        @shared = @listeners.any? { |listener| listener.respond_to?(:adopted?) && listener.adopted? }
        @contexts = contexts(tls)
        @proxy_versions = @listeners.map { |listener| PROXY_VERSIONS.fetch(proxy_protocol[listener]) }
        @proxies = proxies
        @limits = limits
        @capacity = Capacity.new(limits)
        @departure = DEPARTURES.index(cancel_when_client_gone.to_s) or
          raise ArgumentError, "cancel_when_client_gone must be #{DEPARTURES.join(", ")}, not #{cancel_when_client_gone.inspect}"
        @exempt = exempt
        @files = files
        @extended_connect = extended_connect
        @template = Env.template(scheme: scheme, errors: errors, early_hints: early_hints, extra: env)
        @acceptor = nil
      end

      # Accepts from now on, on the loop of this thread.
      #
      # @return [self]
      # @raise [RuntimeError] the thread has no native scheduler of Gyre's, or the server was
      #   started before
      def start
        raise "this server was started already" if @acceptor

        check_scheduler
        @service.watched = !Fiber.scheduler.watchdog.nil?
        @acceptor = NativeAcceptor.new(@sockets, @service, @limits, @template, @contexts, @capacity)
        @acceptor.shared = @shared
        @acceptor.expect_proxies(@proxy_versions, packed_proxies) if @proxy_versions.any?(&:positive?)
        @acceptor.departure = @departure
        @acceptor.extended_connect = @extended_connect
        @acceptor.exempt = @exempt
        @acceptor.files = @files
        @acceptor.start
        self
      end

      # Takes other certificates, authorities and settings for connections that are accepted from
      # now on. Those that are open keep theirs.
      #
      # @param tls [TLS::Context, Hash{#to_io => TLS::Context}] for each listener that has one
      # @return [void]
      # @raise [ArgumentError] a listener would lose its TLS, or get some
      def tls=(tls)
        contexts = contexts(tls)
        raise ArgumentError, "the same listeners as before need a context" unless contexts.map(&:nil?) == @contexts.map(&:nil?)

        @contexts = contexts
        @acceptor.contexts = contexts if @acceptor
      end

      # Accepts no more. The listening sockets may be closed afterwards; connections go on.
      #
      # @return [void]
      def stop
        @acceptor&.stop
      end

      # Accepts no more, closes idle connections at once and every other one after its next
      # response. Does not wait.
      #
      # @return [void]
      def drain
        @acceptor&.drain
      end

      # Raises an exception in each running request, at its present wait.
      #
      # @param exception [Exception]
      # @return [Integer] how many requests that were
      def interrupt(exception = Gyre::Stop.new("the server stops"))
        @acceptor ? @acceptor.interrupt(exception) : 0
      end

      # Accepts no more and closes every connection, whatever it does.
      #
      # @return [void]
      def close
        @acceptor&.close
      end

      # @return [Integer] running requests that {#shutdown} ends at once: event streams, upgraded
      #   and hijacked connections
      def endless
        @open_responses.count
      end

      # All of that in order: drain, end what has no end, wait for the running requests, cancel
      # them, close. Has to run in a fiber of the loop. (Gyre::Stop is raised in a streaming body,
      # too, once it has sent nothing for a second.)
      #
      # @param timeout_s [Numeric] how long running requests may go on
      # @return [Boolean] true: none had to be cancelled, but for those without an end
      def shutdown(timeout_s)
        drain
        @open_responses.finish
        finished = quiet_within?(timeout_s) || interrupt.zero? # what is left may be connections without a request
        quiet_within?(UNWIND_S) unless finished
        close
        @open_responses.close
        finished
      end

      # @return [Boolean] whether the next request beyond limits.requests_limit would be refused:
      #   the queue is full
      def full?
        @acceptor ? @acceptor.full? : false
      end

      # @return [Hash{Symbol => Integer}] connections, idle, running, accepted, requests, malformed,
      #   refused, handshakes … (see the head of this file)
      def stats
        @acceptor ? @acceptor.stats : NOT_STARTED
      end

      # @return [Hash{String => Object}] what the acceptor has counted, for metrics (see the head of
      #   this file); empty before it runs
      def measurements
        @acceptor ? @acceptor.measurements : {}
      end

      # @param limit [Integer]
      # @return [Array<Array(Hash, Float)>] env and seconds of the requests that have been running
      #   for the longest time
      def oldest(limit)
        @acceptor ? @acceptor.oldest(limit) : []
      end

      private

      def contexts(tls)
        contexts = @listeners.map { |listener| TLS.context(tls.is_a?(Hash) ? tls[listener] : tls, server: true) }
        require "openssl" if contexts.any? { |context| context&.verifies? } # for Env.client_certificate, now and not at a request
        contexts
      end

      def packed_proxies
        @proxies.map { |range| [range.family, range.prefix, range.hton].pack("CCa16") }.join
      end

      def check_scheduler
        scheduler = Fiber.scheduler
        return if scheduler.is_a?(Scheduler) && !scheduler.is_a?(Scheduler::Portable)

        raise "an HTTP server needs a thread with a Gyre::Scheduler of the native engine, and here is " \
              "#{scheduler.is_a?(Scheduler) ? "one of the portable engine" : scheduler&.class || "none"}"
      end

      def quiet_within?(seconds)
        deadline = now + seconds
        look = now
        until quiet?
          return false if now >= deadline

          if now >= look
            @open_responses.finish_quiet
            look += QUIET_S
          end
          sleep(LOOK_S)
        end
        true
      end

      def quiet?
        stats = self.stats
        stats[:connections].zero? && stats[:running].zero?
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
