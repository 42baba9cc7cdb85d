# frozen_string_literal: true

# Asks name servers, in turn or all at once: by UDP from a new port, by TCP after truncation, by TLS
# or HTTPS. Used by Gyre::DNS::Resolver, and to forward queries. The caller's fiber or thread waits;
# only {#defer} returns at once, as a Forwarder of the loop asks.

require "gyre/clock"
require "gyre/dns/query"
require "gyre/dns/server_address"
require "gyre/dns/upstream_stream"
require "gyre/errors"
require "gyre/net"
require "gyre/sync/semaphore"

module Gyre
  module DNS
    # Any thread may call its methods.
    class Upstream
      # Maximum concurrent exchanges, each with a socket for each server. Further exchanges wait.
      # The second number applies if a server uses TCP or TLS.
      PLACES, STREAM_PLACES = 500, 100
      # Random bytes for a new forwarder, which uses ten for each question.
      RANDOM_BYTES = 5000
      private_constant :STREAM_PLACES, :RANDOM_BYTES

      # @return [Array<ServerAddress>]
      attr_reader :servers

      # @param addresses [Array<String>] as {ServerAddress.parse} reads them
      # @param timeout_s [Numeric] per server and attempt
      # @param attempts [Integer] rounds over all servers
      # @param race [Boolean] asks all servers at once over UDP; false: in turn
      # @param rotate [Boolean] whether queries begin with different servers
      # @param tls [TLS::Context, nil] of a client; nil: verifies by the system's authorities
      # @raise [ArgumentError]
      def initialize(*addresses, timeout_s: 5, attempts: 2, race: false, rotate: false, tls: nil)
        @servers = addresses.flatten.map { |address| ServerAddress.parse(address) }
        raise ArgumentError, "a name server is missing" if @servers.empty?

        require "gyre/http/client" if @servers.any? { |server| server.protocol == "https" } # before a server becomes another user

        @timeout_s = timeout_s
        @attempts = attempts
        @race = race
        @rotate = rotate
        @tls = TLS.context(tls, server: false)
        @first = 0
        begin_anew
      end

      # Forwards a query. The reply has the query's id and the query's spelling of the name.
      # @param bytes [String] a query with one question
      # @return [String, nil] the whole reply, even a server's failure; nil: none or malformed
      def forward(bytes)
        query = Query.wrap(bytes) or return
        exchange([query])
        query.restored
      end

      # Lets a Forwarder of the loop ask the transaction's question and send the response. Returns
      # false if only {#forward} can ask the question.
      # @api private
      def defer(transaction)
        server = @servers[@first % @servers.size]
        return false unless server.udp? && transaction.deferrable?

        until @forwarders[server]&.take(transaction)
          @forwarders[server] = Forwarder.new(server.addrinfo.to_sockaddr, Random.urandom(RANDOM_BYTES))
        end
        true
      rescue SystemCallError
        false
      end

      # Asks until each query has a reply or all attempts have failed. Stores the replies in the
      # queries. Raises no network errors.
      # @api private
      def exchange(queries)
        begin_anew if @pid != Process.pid
        # Takes no place in a blocked loop, whose fibers cannot give places back.
        return ask(queries) if Fiber.scheduler && !Fiber.current_scheduler

        @places.acquire { ask(queries) }
      end

      # Closes connections; later queries open new ones.
      # @return [nil]
      def close
        streams = @streams
        begin_anew # before closing, during which others may open connections
        streams.each_value(&:close)
        nil
      end

      # @return [String]
      def inspect = "#<#{self.class} #{@servers.join(", ")}>"

      # @return [UpstreamStream, UpstreamHTTPS] for the server; TCP if the server's protocol is UDP
      # @api private
      def stream(server)
        @streams[server] ||= (server.protocol == "https" ? UpstreamHTTPS : UpstreamStream).new(server, @tls)
      end

      private

      # Also called in a forked child, as sockets and places belong to the parent.
      def begin_anew
        @places = Semaphore.new(@servers.any? { |server| %w[tcp tls].include?(server.protocol) } ? STREAM_PLACES : PLACES)
        @pid = Process.pid
        @forwarders = {}.compare_by_identity
        @streams = {}.compare_by_identity
      end

      def ask(queries)
        exchange = Exchange.new(self, queries)
        @attempts.times do
          @first += 1 if @rotate
          # The servers of a slice are asked at once.
          @servers.rotate(@first).each_slice(@race ? @servers.size : 1) do |servers|
            exchange.ask(servers, @timeout_s)
            return @first = @servers.index(servers.first) if queries.all?(&:answered?)
          end
        end
      ensure
        exchange&.close
      end
    end

    # Sends several queries to servers until each query is answered. Repeats truncated queries over
    # TCP. Made by Gyre::DNS::Upstream for each caller. Decides nothing about retries.
    #
    # @api private
    class Exchange
      # Errors of a server; the next server is tried afterwards.
      FAILURES = [SystemCallError, SocketError, IOError, TimeoutError, TLS::Error].freeze

      def initialize(upstream, queries)
        @upstream = upstream
        @queries = queries
        @sockets = {}.compare_by_identity # ServerAddress => Datagram
      end

      # Returns when all queries are answered, all servers have failed or the time is over. Also
      # accepts late answers from servers asked before.
      def ask(servers, timeout_s)
        @until_s = Clock.now + timeout_s
        @open = {}.compare_by_identity # ServerAddress => queries that it has not answered
        servers.each { |server| send_to(server) }
        take(*receive) until @open.all? { |_, queries| queries.empty? } || @queries.all?(&:answered?) || Clock.now >= @until_s
      end

      def close = @sockets.each_value(&:close)

      private

      def send_to(server)
        @open[server] = @queries.reject(&:answered?)
        return by_stream(server, @open[server]) unless server.udp?

        socket = @sockets[server] || open_socket(server)
        @open[server].each { |query| socket.send(query.bytes) }
      rescue SystemCallError => error
        refused(server, error)
      end

      # The socket is connected, so that the kernel drops other senders' packets.
      def open_socket(server)
        @sockets[server] = Datagram.new(Socket.new(server.addrinfo.afamily, :DGRAM), "a name server", nil, Datagram::BYTES_LIMIT)
        @sockets[server].tap { |socket| socket.to_io.connect(server.addrinfo) }
      end

      # Records that the server is unreachable or its port is closed.
      def refused(server, error)
        @open[server]&.each { |query| query.failures << "#{server}: #{error.class.new.message}" }
        @open[server] = []
      end

      # Returns a server and the packet that it sent, or nil.
      def receive
        loop do
          @sockets.each do |server, socket|
            packet = socket.receive(timeout: @sockets.size == 1 ? left_s : 0)
            return [server, packet.bytes] if packet
          rescue SystemCallError => error
            return refused(server, error) && nil
          end
          return if left_s.zero?

          Net.select(@sockets.each_value.map(&:to_io), nil, left_s) if @sockets.size > 1
        end
      end

      def left_s = [@until_s - Clock.now, 0].max

      def take(server = nil, packet = nil)
        return unless packet

        verdict = nil
        query = @queries.find { |each| !each.answered? && (verdict = each.verdict(packet)) } or return
        return by_stream(server, [query]) if verdict == :truncated
        return @sockets[server].send(query.bytes) if verdict == :failure && query.leave_out_edns?(packet)

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
