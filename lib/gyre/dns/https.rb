# frozen_string_literal: true

# DNS over HTTPS (RFC 8484) as a Rack app for any web server. Passes each GET or POST to a
# Gyre::DNS::Server, which needs no sockets of its own.
require "socket"
require "gyre/dns/server"

module Gyre
  module DNS
    # @example config.ru
    #   map("/dns-query") { run Gyre::DNS::HTTPS.new { zone "example.org", "example.org.zone" } }
    class HTTPS
      # Media type of requests and responses.
      MEDIA_TYPE = "application/dns-message"
      # Headers in which a proxy names its client. The web server does not evaluate them.
      HIDDEN = %w[HTTP_FORWARDED HTTP_X_REAL_IP HTTP_CLIENT_IP].freeze
      private_constant :HIDDEN

      # @param server [Server, nil]
      # @yield the rules of a server without addresses, see {Rules}
      def initialize(server = nil, &rules)
        @server = server || Server.new(&rules)
      end

      # @param env [Hash] Rack's
      # @return [Array] Rack's response
      def call(env)
        status, bytes = request(env)
        return refuse(status, bytes) unless status == 200

        response = @server.answer(bytes, sockaddr(env)) or return refuse(400, "not a DNS query")
        [200, { "content-type" => MEDIA_TYPE, "content-length" => response.bytesize.to_s, **freshness(response) }, [response]]
      end

      private

      # @return [Array(Integer, String)] 200 and the message, or a status and a reason
      def request(env)
        case env["REQUEST_METHOD"]
        when "GET", "HEAD" then decode(env["QUERY_STRING"].to_s[/(?:\A|&)dns=([^&]*)/, 1])
        when "POST" then env["CONTENT_TYPE"] == MEDIA_TYPE ? read(env["rack.input"]) : [415, "the media type is #{MEDIA_TYPE}"]
        else [405, "GET or POST"]
        end
      end

      def decode(text)
        return [400, "?dns= has the message, as base64url without padding"] unless text&.match?(/\A[\w-]+\z/)

        [200, text.tr("-_", "+/").then { |base64| "#{base64}#{"=" * (-base64.size % 4)}" }.unpack1("m0")]
      rescue ArgumentError
        [400, "?dns= is not base64url"]
      end

      def read(input)
        bytes = input&.read(Message::BYTES_LIMIT + 1).to_s
        bytes.bytesize > Message::BYTES_LIMIT ? [413, "a DNS message has at most #{Message::BYTES_LIMIT} bytes"] : [200, bytes]
      end

      # Returns the client's struct sockaddr, or "" for an unknown client, which gets no recursion.
      # The client is unknown behind a proxy that the web server does not trust (--trusted-proxy).
      # Behind one trusted proxy, X-Forwarded-For equals REMOTE_ADDR.
      def sockaddr(env)
        address, forwarded = env.values_at("REMOTE_ADDR", "HTTP_X_FORWARDED_FOR")
        hidden = HIDDEN.any? { |name| env.key?(name) } || (forwarded && forwarded != address)
        hidden || !address.to_s.match?(Resolv::AddressRegex) ? "" : Socket.sockaddr_in(0, address)
      end

      # Returns headers for caches (RFC 8484, section 5.1).
      def freshness(response)
        message = Message.parse(response)
        ttl = (message.answers.empty? ? message.authority : message.answers).map(&:ttl).min
        { "cache-control" => ttl ? "max-age=#{ttl}" : "no-store" }
      rescue FormatError # an upstream's reply is malformed
        { "cache-control" => "no-store" }
      end

      def refuse(status, reason)
        headers = { "content-type" => "text/plain", "content-length" => (reason.bytesize + 1).to_s }
        headers["allow"] = "GET, HEAD, POST" if status == 405
        [status, headers, ["#{reason}\n"]]
      end
    end
  end
end
