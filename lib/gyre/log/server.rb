# frozen_string_literal: true

# The log server of `gyre log`: connects ingest, outputs, committer and hub. Gyre::Log::Lifecycle
# runs, ends and restarts it; Gyre::Log::Connection serves clients.

require "gyre/core"
require "gyre/log/server/committer"
require "gyre/log/server/acceptor"
require "gyre/log/server/hub"
require "gyre/log/server/inlet"
require "gyre/log/server/lifecycle"
require "gyre/log/server/routing"
require "gyre/log/server/session"

module Gyre
  module Log
    #   server = Gyre::Log::Server.new(bind: 6766, default_log: "log/all.log")
    #   server.run
    class Server
      # Maximum bytes of messages in memory for an output that does not set `queue`.
      QUEUE_BYTES = 32 << 20
      # Number of sessions above which absent clients are forgotten.
      SESSIONS_LIMIT = 10_000
      # Maximum connections that the status lists; its total counts all connections.
      CONNECTIONS_LISTED = 1_000
      private_constant :QUEUE_BYTES, :SESSIONS_LIMIT, :CONNECTIONS_LISTED

      # @return [Ingest]
      attr_reader :ingest
      # @return [Committer]
      attr_reader :committer
      # @return [Limits]
      attr_reader :limits
      # @return [Sessions]
      attr_reader :sessions
      # @return [Routing]
      attr_reader :routing

      # @param bind [String, Integer, Gyre::Endpoint, Array] the main port
      # @param key [String, nil] that clients must send
      # @param logs [Array<Hash>] as in the configuration (docs/log.md)
      # @param default_log [String, Hash] a path, or as one of logs
      # @param levels [Array<String>, nil] severities that are written; nil: all
      # @param interval [Numeric] seconds between writes
      # @param sync_interval [Numeric, nil] seconds between syncs of unacknowledged messages
      # @param inputs [Array<Hash>] as in the configuration (docs/log.md)
      # @param tls [Hash, nil] cert:, key:, ca:, crl:, verify: of the main port
      # @param limits [Hash, Limits] by the names in docs/log.md
      # @param raw [Boolean] writes messages unescaped, with line ends: clients can forge lines
      # @param origin [Boolean, nil] whether lines name host and process; nil: not in text
      # @param signals [Boolean] whether the server handles INT, TERM, HUP and USR2
      # @param report [#puts] gets lines about the server itself
      # @param successor [Gyre::CLI::Successor, nil] for USR2: rehearses and executes a new program
      # @param handover [Gyre::CLI::Handover, nil] has the listening sockets of a former program
      # @param manager [#reloading, #ready, #stopping, nil] is told of reopened files and of the end
      # @raise [ArgumentError] names the wrong setting
      # @raise [ExtensionRequired] without the C extension
      def initialize(bind: "tcp://127.0.0.1:6766", key: nil, logs: [], default_log: "STDOUT", levels: nil, interval: 1,
                     sync_interval: 60, inputs: [], tls: nil, limits: {}, raw: false, origin: nil, signals: true, report: $stderr,
                     successor: nil, handover: nil, manager: nil)
        Loop.require_native("the log server")
        @limits = Limits.from(limits)
        @report, @handover = report, handover
        @inputs = Inlet.all(bind, inputs, tls)
        @ingest = Ingest.new(services_limit: @limits.services_limit)
        @routing = Routing.new(@ingest, logs: logs, default_log: default_log, levels: levels, raw: raw, origin: origin,
                                        report: method(:report), spill_bytes_limit: @limits.spill_bytes_limit,
                                        queue_bytes_limit: [QUEUE_BYTES, @limits.memory_bytes_limit].min)
        @committer = Committer.new(@routing.pairs, interval: interval, sync_interval: sync_interval)
        @sessions = Sessions.new(SESSIONS_LIMIT) { |id, service| @ingest.session(id, @routing.stored(id, service)) }
        @hub = Hub.new(self, key)
        @acceptors = []
        @lifecycle = Lifecycle.new(self, @hub, @acceptors, successor, signals: signals, handover: handover, manager: manager)
      end

      # Opens the sockets, so that clients can connect before {#run} serves them.
      # @return [self]
      # @raise [SystemCallError, SocketError] the message names the address; no socket stays open
      def listen
        return self unless @acceptors.empty?

        left = (@handover ? @handover["listeners"] : []).group_by { |listener| listener.fetch("input") }
        @inputs.each do |input|
          (left.delete(input.to_s)&.map { |listener| input.adopt(listener) } || input.bind).each do |listener|
            @acceptors.push((listener.datagram? ? DatagramReceiver : Acceptor).new(@hub, listener, input))
          end
        end
        left.values.flatten.each { |listener| Socket.for_fd(listener.fetch("descriptor")).close } # not in the new configuration
        self
      rescue SystemCallError, SocketError
        close
        raise
      end

      # @return [Array<Gyre::Endpoint>] listening addresses with their ports; the main port first
      def endpoints = @acceptors.map { |acceptor| acceptor.listener.endpoint }

      # Serves until {#stop}. Inside Gyre.run, other tasks continue to run.
      # @yield [self] once it serves
      # @return [Boolean] whether every received message was written
      # @raise [SystemCallError, SocketError] (see #listen)
      # @raise permanent errors of an output
      def run(&block)
        listen
        @lifecycle.run { block&.call(self) }
      ensure
        close
      end

      # Requests the server's end. After a second call, the server ends without waiting for the
      # outputs. Any thread or signal handler may call this method.
      def stop = @lifecycle.stop

      # Requests that all outputs reopen their files.
      def reopen = @lifecycle.reload

      # Reopens files, and tells a connection whether all outputs succeeded.
      # @param connection [#reopened]
      def reopen_for(connection) = @lifecycle.reopen("as a client has asked") { |done| connection.reopened(done) }

      # Requests a restart.
      def restart = @lifecycle.post(:restart)

      # @return [Hash{Symbol => Object}] figures, as `gyre log status --json` prints them
      def status
        { version: VERSION, pid: Process.pid, uptime_s: @lifecycle.uptime_s.round(1),
          messages: @ingest.messages, filtered: @ingest.filtered, cut: @hub.cut, rates: @hub.rates,
          bytes: @hub.flow.bytes, paused: @hub.flow.paused?, pauses: @hub.flow.pauses,
          connections: @hub.connections.size, clients: @hub.connections.keys.first(CONNECTIONS_LISTED).map(&:to_h),
          sessions: @sessions.size, outputs: outputs, services: services, loop_lag_s: lag }
      end

      # Writes a line about the server itself.
      # @param message [String]
      def report(message)
        @report.puts("gyre log: #{message}")
      rescue SystemCallError, IOError
        nil # standard error is closed
      end

      # Releases all resources. {#run} calls this at its end.
      def close
        @acceptors.each { |acceptor| acceptor.listener.close }
        @hub.loop.close
        @routing.close(abandon: @lifecycle.abandoned?)
      end

      private

      def outputs = @committer.status.zip(@routing.sinks).map { |output, sink| output.merge(waiting: @hub.flow.queued(sink)) }

      # Converts names to UTF-8 for JSON, because they may be any bytes.
      def services
        @ingest.services.each_with_object(Hash.new(0)) do |(name, count), counts|
          counts[name.dup.force_encoding(Encoding::UTF_8).scrub] += count
        end
      end

      def lag = (Gyre::Loop.stats || {}).slice(:lag_p50_s, :lag_p99_s, :lag_max_s).transform_keys { |name| name[/p50|p99|max/] }
    end
  end
end
