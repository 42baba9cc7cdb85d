# frozen_string_literal: true

# The server's figures as one line of JSON, for `gyre log status`.

require "json"
require "gyre/version"

module Gyre
  module Log
    class ServerStatus
      # Connections listed; the total includes others.
      CONNECTIONS_LISTED = 1_000

      def initialize(server, hub, started_s)
        @server, @hub, @started_s = server, hub, started_s
      end

      def to_h
        { version: VERSION, pid: Process.pid, uptime_s: (Process.clock_gettime(Process::CLOCK_MONOTONIC) - @started_s).round(1),
          **messages, **memory, connections: @hub.connections.size, clients: clients, sessions: @server.sessions.size,
          outputs: outputs, services: services, **lag }
      end

      def to_json(*) = JSON.generate(to_h)

      private

      def outputs
        @server.committer.status.zip(@server.routing.sinks).map { |output, sink| output.merge(waiting: @hub.flow.queues.parked(sink)) }
      end

      def messages
        ingest = @server.ingest
        { messages: ingest.messages, filtered: ingest.filtered, rates: @hub.rates }
      end

      def memory = { bytes: @hub.flow.bytes, paused: @hub.flow.paused?, pauses: @hub.flow.backpressure.count }

      def clients = @hub.connections.keys.first(CONNECTIONS_LISTED).map(&:to_h)

      # Names are any bytes, JSON is UTF-8.
      def services
        @server.ingest.services.each_with_object(Hash.new(0)) do |(name, count), counts|
          counts[name.dup.force_encoding(Encoding::UTF_8).scrub] += count
        end
      end

      def lag
        stats = Gyre::Loop.stats || {}
        { loop_lag_s: stats.slice(:lag_p50_s, :lag_p99_s, :lag_max_s).transform_keys { |name| name[/p50|p99|max/] } }
      end
    end
  end
end
