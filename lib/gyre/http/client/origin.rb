# frozen_string_literal: true

# A server's scheme, host and port. Connects directly, through a proxy or by a Unix socket, and
# starts TLS. Called by Pool. Keeps no connection.

require "gyre/clock"
require "gyre/http/client/errors"
require "gyre/http/client/h1_connection"
require "gyre/http/client/h2_connection"
require "gyre/net"
require "ipaddr"
require "uri"

module Gyre
  module HTTP
    class Client
      class Origin
        PORTS = { "http" => 80, "https" => 443 }.freeze
        HOST = /\[[0-9a-f:.]+\]|[^\/?#:@\[\]\s]+/i.freeze
        URL = %r{\A(https?)://(?:([^/?#@]*)@)?(#{HOST})(?::(\d{0,5}))?(/[^?#]*)?(\?[^#]*)?(?:#.*)?\z}i.freeze
        ALPN = %w[h2 http/1.1].freeze
        # Networks not on the Internet (RFC 6890), and IPv6 prefixes that embed IPv4 addresses.
        PRIVATE = %w[0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
                     192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3 ::/96 ::ffff:0:0:0/96
                     64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 3fff::/20 5f00::/16 fc00::/7
                     fe80::/10 fec0::/10 ff00::/8].map { |net| IPAddr.new(net) }.freeze
        PUBLIC = lambda do |address|
          ip = IPAddr.new(address.ip_address[/[^%]+/]).native # ::ffff:10.0.0.1 is 10.0.0.1
          PRIVATE.none? { |net| net.family == ip.family && net.include?(ip) }
        end
        private_constant :PORTS, :HOST, :URL, :ALPN, :PRIVATE, :PUBLIC

        class << self
          # Returns scheme, host, port, user information and target. Errors omit credentials and
          # query.
          def split(url)
            match = URL.match(url)
            scheme = match && match[1].downcase
            port = match && (match[4].nil? || match[4].empty? ? PORTS[scheme] : match[4].to_i)
            unless port && port <= 65_535
              shown = url.to_s.sub(/.*@/m, "…@")[/[^?#]*/]
              raise ArgumentError, "#{shown.inspect} is not an HTTP address: write http://host/path or https://host/path"
            end

            [scheme, match[3].downcase, port, match[2], "#{match[5] || "/"}#{match[6]}"]
          end

          # Returns the context of all clients without a `tls` option, which thus read the system's
          # authorities once and resume each other's sessions.
          def tls = Ractor.current[:gyre_http_client_tls] ||= TLS.client(alpn: ALPN)
        end

        # `fields`: headers that only this server, or its proxy, may see.
        attr_reader :scheme, :host, :port, :authority, :fields

        def initialize(scheme, host, port, options)
          @scheme = scheme
          @host = host
          @port = port
          @options = options
          @authority = (PORTS[scheme] == port ? host : "#{host}:#{port}").freeze
          @proxy = proxy
          @fields = { "host" => @authority, **(prefix ? proxy_fields : {}) }.freeze
        end

        def url = "#{scheme}://#{authority}"
        def tls? = scheme == "https"
        def limits = @options.limits

        # True if a new connection may be HTTP/2, and the last connection was not HTTP/1.
        def perhaps_shared? = @shared != false && (tls? ? @options.http2 != false : @options.http2)

        # Prefix of targets: a proxy gets whole addresses unless it tunnels TLS.
        def prefix = @proxy && !tls? ? url : nil

        def connect(until_s)
          at = [limits.connect_timeout_s && (Clock.now + limits.connect_timeout_s), until_s].compact.min
          transport = reach(at)
          tunnel(transport, at) if @proxy && tls?
          secure(transport, at) if tls?
          transport.write_timeout_s = limits.write_timeout_s
          connection = (shared?(transport) ? H2Connection : H1Connection).new(transport, limits)
          @shared = connection.shared?
          connection
        ensure
          transport&.abandon unless connection
        end

        private

        # Headers for the proxy itself.
        def proxy_fields
          return {} unless @proxy&.user

          words = [@proxy.user, @proxy.password].map { |word| URI.decode_www_form_component(word.to_s) }
          { "proxy-authorization" => "Basic #{[words.join(":")].pack("m0")}" }
        end

        def left(at) = at && [at - Clock.now, 0.001].max

        def proxy
          given = @options.proxy
          given = URI(url).find_proxy if given == :environment && !@options.socket
          return unless given && given != :environment

          URI(given.to_s).tap { |uri| raise ArgumentError, "proxy: write http://host:port" unless uri.instance_of?(URI::HTTP) && uri.host }
        rescue URI::Error
          raise ArgumentError, "the address of the server or of the proxy is not one"
        end

        def address
          at = @proxy || self
          @address ||= @options.socket ? Endpoint.new(:unix, path: @options.socket) : Endpoint.new(:tcp, host: at.host.delete("[]"), port: at.port)
        end

        def reach(at)
          Gyre.connect(address, timeout_s: left(at), only: (PUBLIC unless @options.private_addresses || @proxy))
        rescue *FAILURES => error
          raise @proxy ? error.exception("proxy: #{error.message}") : error
        end

        # CONNECT (RFC 9110, section 9.3.6).
        def tunnel(transport, at)
          target = "#{host}:#{port}"
          reply = H1Connection.new(transport, limits).request("CONNECT", target, { "host" => target, **proxy_fields }, nil, at)
          return if reply.status == 200

          raise IOError, "the proxy #{@proxy.host}:#{@proxy.port} refused the tunnel with #{reply.status}"
        rescue Unanswered => error
          raise error.error
        end

        def secure(transport, at)
          context = @options.tls || (@options.http2 == false ? TLS.shared_client : Origin.tls)
          transport.start_tls(context, name: host.delete("[]"), timeout_s: left(at))
        end

        def shared?(transport) = tls? ? transport.alpn == "h2" : @options.http2
      end
    end
  end
end
