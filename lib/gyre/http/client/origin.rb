# frozen_string_literal: true

# A server's scheme, host and port. Connects directly, through a proxy or by a Unix socket, and
# starts TLS. Called by Pool. Keeps no connection.

require "gyre/http/client/h1_connection"
require "gyre/http/client/h2_connection"
require "gyre/http/client/proxy"

module Gyre
  module HTTP
    class Client
      class Origin
        PORTS = { "http" => 80, "https" => 443 }.freeze
        HOST = /\[[0-9a-f:.]+\]|[^\/?#:@\[\]\0-\x20"<>\\^`{|}\x7f]+/i.freeze
        URL = %r{\A(https?)://(?:([^/?#@]*)@)?(#{HOST})(?::(\d{0,5}))?(/[^?#]*)?(\?[^#]*)?(?:#.*)?\z}i.freeze
        REFERENCE = %r{\A(?:([a-z][a-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(\?[^#]*)?}i.freeze
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
        private_constant :PORTS, :HOST, :URL, :REFERENCE, :ALPN, :PRIVATE, :PUBLIC

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

            [scheme, ascii(match[3].downcase), port, match[2], "#{match[5] || "/"}#{match[6]}"]
          end

          # Returns the address of a redirect (RFC 3986, section 5.2); nil if it has no host.
          # Escapes only what no target may have, as browsers do.
          def resolve(url, target, location)
            location = location.b.gsub(/[^\x21-\x7e]|["<>\\^`{}]/n) { |byte| format("%%%02X", byte.ord) }
            scheme, authority, path, query = location.match(REFERENCE).captures
            return ("#{scheme || url[/\A\w+/]}://#{authority}#{dotless(path)}#{query}" if authority) if scheme || authority

            own, own_query = target.split(/(?=\?)/, 2)
            return "#{url}#{own}#{query || own_query}" if path.empty?

            "#{url}#{dotless(path.start_with?("/") ? path : "#{own[%r{\A.*/}] || "/"}#{path}")}#{query}"
          end

          # Returns the value of basic authentication (RFC 7617).
          def basic(name, password = nil) = "Basic #{["#{name}:#{password}"].pack("m0")}"

          # Returns the context of all clients without a `tls` option, which thus read the system's
          # authorities once and resume each other's sessions.
          def tls = Ractor.current[:gyre_http_client_tls] ||= TLS.client(alpn: ALPN)

          private

          # Names of other scripts need IDNA, which the gem addressable has.
          def ascii(host)
            return host if host.ascii_only?
            return ::Addressable::IDNA.to_ascii(host) if defined?(::Addressable::IDNA)

            raise ArgumentError, "#{host.inspect} is not an ASCII name: write it as xn--…, or load the gem addressable"
          end

          # Removes "." and ".." (RFC 3986, section 5.2.4).
          def dotless(path)
            return path unless path.match?(%r{/\.\.?(?:/|\z)})

            segments = path.split("/", -1)
            kept = []
            segments.drop(1).each { |segment| segment == ".." ? kept.pop : (kept << segment unless segment == ".") }
            "/#{kept.join("/")}#{"/" if !kept.empty? && segments.last.match?(/\A\.\.?\z/)}"
          end
        end

        # `fields`: headers that only this server, or its proxy, may see.
        attr_reader :scheme, :host, :port, :authority, :fields

        # `tunnel`: asks a proxy for a tunnel (CONNECT), even without TLS.
        def initialize(scheme, host, port, options, tunnel: false)
          @scheme = scheme
          @host = host
          @port = port
          @options = options
          @authority = (PORTS[scheme] == port ? host : "#{host}:#{port}").freeze
          @proxy = Proxy.for(options.proxy, scheme, host, port) unless options.proxy == :environment && options.socket
          @tunnel = @proxy && (tls? || tunnel)
          @fields = { "host" => @authority, **(prefix ? proxy_fields : {}) }.freeze
        end

        def url = "#{scheme}://#{authority}"
        def tls? = scheme == "https"
        def limits = @options.limits

        # True if a new connection may be HTTP/2, and the last connection was not HTTP/1.
        def perhaps_shared? = @shared != false && (tls? ? @options.http2 != false : @options.http2)

        # Prefix of targets: a proxy gets whole addresses unless it makes a tunnel.
        def prefix = @proxy && !@tunnel ? url : nil

        def connect(until_s)
          at = [limits.connect_timeout_s && (Clock.now + limits.connect_timeout_s), until_s].compact.min
          transport = reach(at)
          tunnel(transport, at) if @tunnel
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

          { "proxy-authorization" => Origin.basic(Proxy.decode(@proxy.user), Proxy.decode(@proxy.password)) }
        end

        def left(at) = at && [at - Clock.now, 0.001].max

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
          return if reply.status.between?(200, 299)

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
