# frozen_string_literal: true

# Scheme, host and port of a server, and how a client connects to it: directly, over TLS, by a Unix
# socket. Pool calls it. Keeps no connection.

require "gyre/clock"
require "gyre/http/client/errors"
require "gyre/http/client/h1_connection"
require "gyre/net"

module Gyre
  module HTTP
    class Client
      class Origin
        PORTS = { "http" => 80, "https" => 443 }.freeze
        ALPN = %w[h2 http/1.1].freeze
        URL = %r{\A(?<scheme>https?)://(?:(?<user>[^/?#@]*)@)?(?<host>\[[0-9a-f:.]+\]|[^/?#:@\[\]\s]+)(?::(?<port>\d{0,5}))?
                 (?<path>/[^?#]*)?(?<query>\?[^#]*)?(?:\#.*)?\z}xi.freeze
        private_constant :ALPN

        # Splits a URL: Origin's arguments, and the target of a request.
        def self.split(url)
          match = URL.match(url)
          port = match && (match[:port].to_s.empty? ? PORTS[match[:scheme].downcase] : match[:port].to_i)
          raise ArgumentError, "not an HTTP address: write http://host/path or https://host/path" unless port && port <= 65_535

          [match[:scheme].downcase, match[:host].downcase, port, match[:user], "#{match[:path] || "/"}#{match[:query]}"]
        end

        # Context of all clients without their own: the system's authorities are read once, and
        # sessions resume within a context.
        def self.tls = Ractor.current[:gyre_http_client_tls] ||= TLS.client(alpn: ALPN)

        attr_reader :scheme, :host, :port, :authority

        def initialize(scheme, host, port, options)
          @scheme = scheme
          @host = host
          @port = port
          @options = options
          @authority = (PORTS[scheme] == port ? host : "#{host}:#{port}").freeze
        end

        def key = "#{scheme}://#{authority}"
        def tls? = scheme == "https"

        # Returns a connection after its handshake.
        def connect(until_s)
          left = until_s && [until_s - Clock.now, 0.001].max
          timeout_s = [@options.limits.connect_timeout_s, left].compact.min
          transport = Gyre.connect("tcp://#{host}:#{port}", tls: (@options.tls || Origin.tls if tls?), timeout_s: timeout_s)
          connection = H1Connection.new(transport, @options.limits)
        ensure
          transport&.abandon unless connection
        end
      end
    end
  end
end
