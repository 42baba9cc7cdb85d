# frozen_string_literal: true

# Asks servers several queries until each is answered: sends packets, waits on all sockets, changes
# to TCP. Made by Gyre::DNS::Upstream for each caller. Decides nothing about retries.

require "gyre/clock"
require "gyre/errors"
require "gyre/net"

module Gyre
  module DNS
    class Exchange
      # Errors after which the next server is tried.
      FAILURES = [SystemCallError, SocketError, IOError, TimeoutError, TLS::Error].freeze

      def initialize(upstream, queries, reuse)
        @upstream = upstream
        @queries = queries
        @reuse = reuse
        @leases = {}.compare_by_identity # ServerAddress => lease of a socket
      end

      # Returns when all queries are answered, no server will answer, or time is over. Also takes
      # late answers of earlier servers.
      def ask(servers, timeout_s)
        @until_s = Clock.now + timeout_s
        @open = {}.compare_by_identity # ServerAddress => queries that it has not answered
        servers.each { |server| send_to(server) }
        take(*receive) until @open.all? { |_, queries| queries.empty? } || @queries.all?(&:answered?) || Clock.now >= @until_s
      end

      def close
        @leases.each { |server, lease| @upstream.give_back(server, lease, @reuse) }
      end

      private

      def unanswered = @queries.reject(&:answered?)

      def send_to(server)
        @open[server] = unanswered
        return by_stream(server, @open[server]) unless server.udp?

        lease = (@leases[server] ||= @upstream.take_socket(server, @reuse))
        @open[server].each { |query| lease.socket.send(query.bytes) }
      rescue SystemCallError => error
        refused(server, error)
      end

      # The server is unreachable, or its port is closed.
      def refused(server, error)
        @open[server]&.each { |query| query.failures << "#{server}: #{error.class.new.message}" }
        @open[server] = []
      end

      # Returns a server and its packet, or nil.
      def receive
        loop do
          @leases.each do |server, lease|
            packet = lease.socket.receive(timeout: @leases.size == 1 ? left_s : 0)
            return [server, packet.bytes] if packet
          rescue SystemCallError => error
            return refused(server, error) && nil
          end
          return if left_s.zero?

          Net.select(@leases.each_value.map { |lease| lease.socket.to_io }, nil, left_s) if @leases.size > 1
        end
      end

      def left_s = [@until_s - Clock.now, 0].max

      def take(server = nil, packet = nil)
        return unless packet

        verdict = nil
        query = @queries.find { |each| !each.answered? && (verdict = each.verdict(packet)) } or return
        return by_stream(server, [query]) if verdict == :truncated
        return @leases[server].socket.send(query.bytes) if verdict == :failure && query.leave_out_edns?(packet)

        query.keep(packet, verdict, server)
        @open[server]&.delete(query)
      end

      def by_stream(server, queries)
        @upstream.stream(server).exchange(queries, @until_s).each do |query, packet|
          verdict = query.verdict(packet)
          query.keep(packet, verdict == :failure ? verdict : :answer, server) if verdict
        end
      rescue *FAILURES => error
        queries.each { |query| query.failures << "#{server}: #{error.message}" }
      ensure
        @open[server] -= queries if @open[server]
      end
    end
  end
end
