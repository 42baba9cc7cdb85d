# frozen_string_literal: true

# Asks name servers, in turn or all at once: by UDP from a new port, by TCP after truncation, by TLS
# or HTTPS. Used by Gyre::DNS::Resolver, and to forward queries. The caller's fiber or thread waits;
# only {#defer} returns at once, as a Forwarder of the loop asks.

require "gyre/dns/query"
require "gyre/dns/server_address"
require "gyre/dns/upstream_stream"
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
      # Seconds for which a server is asked without what it lacks.
      LACK_S = 300
      private_constant :STREAM_PLACES, :RANDOM_BYTES, :LACK_S

      # @return [Array<ServerAddress>]
      attr_reader :servers

      # @param addresses [Array<String>] as {ServerAddress.parse} reads them
      # @param timeout_s [Numeric] per server and attempt
      # @param attempts [Integer] rounds over all servers
      # @param race [Boolean] asks all servers at once over UDP; false: in turn
      # @param rotate [Boolean] whether queries begin with different servers
      # @param stay_s [Numeric] how long a server is asked first after it answered for a silent one
      # @param tls [TLS::Context, nil] of a client; nil: verifies by the system's authorities
      # @raise [ArgumentError]
      def initialize(*addresses, timeout_s: 5, attempts: 2, race: false, rotate: false, stay_s: 10, tls: nil)
        @servers = addresses.flatten.map { |address| ServerAddress.parse(address) }
        raise ArgumentError, "a name server is missing" if @servers.empty?

        require "gyre/http/client" if @servers.any? { |server| server.protocol == "https" } # before a server becomes another user

        @timeout_s = timeout_s
        @attempts = attempts
        @race = race
        @rotate = rotate
        @stay_s = stay_s
        @tls = TLS.context(tls, server: false)
        @first = @return_s = 0
        @lacks = {} # [server, :edns or :mixed] => time when it is tried again
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
        server = @servers[first]
        return false unless server.udp? && transaction.deferrable? && !lacks?(server, :edns) && !lacks?(server, :mixed)

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

      # Records that a server does not support EDNS, or answers with the name in another case.
      # @api private
      def lacks(server, what) = @lacks[[server, what]] = Clock.now + LACK_S

      # @api private
      def lacks?(server, what) = @lacks.fetch([server, what], 0) > Clock.now

      # @return [UpstreamStream, UpstreamHTTPS] for the server; TCP if the server's protocol is UDP
      # @api private
      def stream(server) = @streams[server] ||= (server.protocol == "https" ? UpstreamHTTPS : UpstreamStream).new(server, @tls)

      private

      # Also called in a forked child, as sockets and places belong to the parent.
      def begin_anew
        @places = Semaphore.new(@servers.any? { |server| %w[tcp tls].include?(server.protocol) } ? STREAM_PLACES : PLACES)
        @pid = Process.pid
        @forwarders = {}.compare_by_identity
        @streams = {}.compare_by_identity
      end

      # Returns the index of the server to begin with.
      def first
        return (@first += 1) % @servers.size if @rotate

        Clock.now < @return_s ? @first : 0
      end

      def ask(queries)
        exchange = Exchange.new(self, queries)
        order = @servers.rotate(first)
        @attempts.times do
          # The servers of a slice are asked at once.
          order.each_slice(@race ? @servers.size : 1) do |servers|
            exchange.ask(servers, @timeout_s)
            return stay(servers.first, exchange) if queries.all?(&:answered?)
          end
          order.rotate! if @rotate
        end
      ensure
        exchange&.close
      end

      def stay(server, exchange)
        return if @rotate || @servers.all? { |each| each.equal?(server) || exchange.heard?(each) || @servers.index(each) > @servers.index(server) }

        @first, @return_s = @servers.index(server), Clock.now + @stay_s
      end
    end

    # Sends several queries to servers until each query is answered. Repeats truncated queries over
    # TCP. Made by Gyre::DNS::Upstream for each caller. Decides nothing about other servers.
    #
    # @api private
    class Exchange
      # Errors of a server; the next server is tried afterwards.
      FAILURES = [SystemCallError, SocketError, IOError, TimeoutError, TLS::Error].freeze

      def initialize(upstream, queries)
        @upstream = upstream
        @queries = queries
        @sockets = {}.compare_by_identity # Datagram => ServerAddress
        @heard = {}.compare_by_identity # ServerAddress => true once it has sent a reply
        @reactions = {}.compare_by_identity # ServerAddress => [query, verdict] to which this round has reacted
      end

      # Returns when all queries are answered, all servers have failed or the time is over. Also
      # accepts late answers from servers asked before. After half the time asks again from a new
      # port, because some routers pass on one question of a port. Leaves EDNS out if the server is
      # silent, because some routers drop it.
      def ask(servers, timeout_s)
        begun_s = Clock.now
        @end_s = begun_s + timeout_s
        @open = servers.to_h { |server| [server, @queries.dup] }.compare_by_identity # queries without a reply
        servers.each { |server| @reactions[server] = [] }
        [[begun_s + timeout_s / 2.0, true], [@end_s, false]].each do |until_s, first|
          @open.each { |server, queries| send_to(server, queries, edns: first || heard?(server)) }
          take(*receive(until_s)) until @open.each_value.all? { |left| left.all?(&:answered?) } || @queries.all?(&:answered?) || Clock.now >= until_s
        end
      end

      # Returns whether the server has sent any reply.
      def heard?(server) = @heard.key?(server)

      def close = @sockets.each_key(&:close)

      private

      def send_to(server, queries, edns: true)
        queries = queries.reject(&:answered?)
        return if queries.empty?
        return by_stream(server, queries) unless server.udp?

        socket = open_socket(server)
        queries.each { |query| socket.send(write(query, server, edns)) }
      rescue SystemCallError => error
        refused(server, error)
      end

      def write(query, server, edns = true)
        query.write(edns: edns && !@upstream.lacks?(server, :edns), mixed: !@upstream.lacks?(server, :mixed))
      end

      # The socket is connected, so that the kernel drops other senders' packets.
      def open_socket(server)
        address = server.addrinfo
        socket = Datagram.new(Socket.new(address.afamily, :DGRAM), "a name server", nil, Datagram::BYTES_LIMIT)
        @sockets[socket] = server
        socket.to_io.connect(address)
        socket
      end

      # Records that the server is unreachable or its port is closed.
      def refused(server, error)
        @open[server]&.each { |query| query.failures << "#{server}: #{error.class.new.message}" }
        @open[server] = []
      end

      # Returns a server and the packet that it sent, or nil.
      def receive(until_s)
        loop do
          left_s = [until_s - Clock.now, 0].max
          @sockets.each do |socket, server|
            packet = socket.receive(timeout: @sockets.size == 1 ? left_s : 0)
            return [server, packet.bytes] if packet
          rescue SystemCallError => error
            return refused(server, error) && nil
          end
          return if left_s.zero?

          Net.select(@sockets.each_key.map(&:to_io), nil, left_s) if @sockets.size > 1
        end
      end

      def take(server = nil, packet = nil)
        return unless packet

        verdict = nil
        query = @queries.find { |each| !each.answered? && (verdict = each.verdict(packet)) } or return
        return unless first?(server, query, verdict)

        @upstream.lacks(server, :edns) if verdict == :without_edns || (query.bare?(packet) && !heard?(server))
        @heard[server] = true
        case verdict
        when :truncated then by_stream(server, [query])
        when :other_case then prove(server, query)
        when :without_edns then send_to(server, [query])
        else settle(server, query, packet, verdict)
        end
      end

      def closed?(server, error) = !heard?(server) && (error.is_a?(IOError) || error.is_a?(Errno::ECONNRESET))

      # Returns whether a server that is asked gives this verdict for the first time.
      def first?(server, *reaction) = !@reactions[server].include?(reaction) && @reactions[server] << reaction

      def settle(server, query, packet, verdict)
        query.keep(packet, verdict, server)
        @open[server]&.delete(query)
      end

      # Asks again over TCP, which proves the sender. Without TCP, old routers get the name as it
      # was given, from a new port.
      def prove(server, query)
        before = query.reply # another server's failure
        by_stream(server, [query], (Clock.now + @end_s) / 2)
        return unless query.reply.equal?(before)

        @upstream.lacks(server, :mixed)
        @open[server] |= [query] if @open[server]
        send_to(server, [query])
      end

      # Sends queries without reply again as long as others are answered: some servers answer one
      # query of a connection. Leaves EDNS out if a server closes the connection without a reply.
      def by_stream(server, queries, until_s = @end_s, edns: true)
        queries.each { |query| write(query, server, edns) }
        found = @upstream.stream(server).exchange(queries, until_s)
        verdicts = found.to_h { |query, packet| [query, query.verdict(packet)] }.compact
        @upstream.lacks(server, :edns) if !edns && verdicts.any?
        left = queries.reject do |query|
          verdict = verdicts[query] or next
          @heard[server] = true
          next @upstream.lacks(server, :edns) && false if verdict == :without_edns && first?(server, query, verdict)

          settle(server, query, found[query], %i[failure without_edns].include?(verdict) ? :failure : :answer)
          true
        end
        by_stream(server, left, until_s) if left.any? && verdicts.any? && Clock.now < until_s
      rescue *FAILURES => error
        return by_stream(server, queries, until_s, edns: false) if edns && closed?(server, error) && Clock.now < until_s

        queries.each { |query| query.failures << "#{server}: #{error.message}" }
      ensure
        @open[server] -= queries if @open[server]
      end
    end
  end
end
