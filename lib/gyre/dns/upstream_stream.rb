# frozen_string_literal: true

# A name server over TCP (RFC 7766), TLS (RFC 7858) or HTTPS (RFC 8484). Over TCP and TLS each
# exchange uses its own connection, which a later exchange reuses. Made by Gyre::DNS::Upstream,
# which bounds the number of exchanges.

require "gyre/net"

module Gyre
  module DNS
    class UpstreamStream
      IDLE_LIMIT = 16
      private_constant :IDLE_LIMIT

      def initialize(server, tls)
        @server = server
        @tls = tls
        @idle = []
      end

      # Returns {query => packet} for the replies that came in time. Servers may close at any time
      # (RFC 7766, section 6.2.4). Queries that failed on a reused connection are sent again.
      def exchange(queries, until_s)
        older = @idle.pop
        transport = older || connect(until_s)
        found = converse(transport, queries, until_s)
        close if found.size < queries.size # idle connections may be dead, too (NAT)
        kept = @idle.push(transport) if found.size == queries.size && @idle.size < IDLE_LIMIT
        found
      rescue SystemCallError, IOError, TLS::Error
        raise unless older

        transport.abandon
        retry
      ensure
        transport&.abandon unless kept
      end

      def close = @idle.slice!(0..).each(&:abandon)

      private

      def connect(until_s)
        transport = Gyre.connect("tcp://#{@server.authority}", timeout_s: left_s(until_s))
        if @server.protocol == "tls"
          @tls ||= TLS.client(alpn: ["dot"])
          transport.start_tls(@tls, name: @server.name || @server.host, timeout_s: left_s(until_s).ceil(2))
        end
        connected = transport
      ensure
        transport&.abandon unless connected
      end

      def converse(transport, queries, until_s)
        found = {}.compare_by_identity
        transport.write_timeout_s = left_s(until_s)
        transport.write(*queries.flat_map { |query| [[query.bytes.bytesize].pack("n"), query.bytes] })
        while found.size < queries.size && Clock.now < until_s
          transport.read_timeout_s = left_s(until_s)
          packet = transport.read_exactly(transport.read_exactly(2).unpack1("n"))
          query = queries.find { |each| !found.key?(each) && each.verdict(packet) }
          found[query] = packet if query
        end
        found
      rescue TimeoutError
        found
      rescue SystemCallError, IOError, TLS::Error
        found.any? ? found : raise
      end

      def left_s(until_s) = [until_s - Clock.now, 0.001].max
    end

    # A name server over HTTPS, asked by the HTTP client.
    class UpstreamHTTPS
      TYPE = "application/dns-message"
      HEADERS = { "content-type" => TYPE, "accept" => TYPE }.freeze
      private_constant :TYPE, :HEADERS

      def initialize(server, tls)
        @url = "https://#{server.authority}#{server.path}"
        @client = HTTP::Client.new(tls: tls, body_bytes_limit: Message::BYTES_LIMIT)
      end

      # Returns {query => packet}, like {UpstreamStream#exchange}.
      def exchange(queries, until_s)
        replies = if queries.size > 1 && Task.current?
                    Gyre.run { |task| queries.to_h { |query| [query, task.async { post(query, until_s) }] }.transform_values(&:wait) }
                  else
                    queries.to_h { |query| [query, post(query, until_s)] }
                  end
        found = replies.select { |_, reply| reply.is_a?(String) }
        found.empty? ? raise(replies.each_value.first) : found
      end

      def close = @client.close

      private

      # Returns the reply or an IOError, because other queries may have replies.
      def post(query, until_s)
        response = @client.post(@url, query.bytes, headers: HEADERS, timeout_s: [until_s - Clock.now, 0.001].max)
        return response.body.b if response.status == 200 && response.headers["content-type"] == TYPE

        IOError.new("#{@url}: status #{response.status}, #{response.headers["content-type"] || "no content type"}")
      rescue HTTP::Client::Error => error
        IOError.new(error.message)
      end
    end
  end
end
