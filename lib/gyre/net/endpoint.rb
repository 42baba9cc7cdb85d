# frozen_string_literal: true

# Parses and checks an address to listen on or connect to, such as tcp://host:port or unix:///path.
# {#bind} returns Gyre::Listener objects, and {#connect} a socket. Holds no socket itself.

require "gyre/net/connector"
require "gyre/net/listener"

module Gyre
  # Immutable. Endpoints are equal if their addresses and settings, except backlog and congestion
  # control, are equal.
  class Endpoint
    # Default maximum of connections that wait to be accepted; net.core.somaxconn may lower it.
    BACKLOG = 4096
    # Maximum bytes of a Unix socket's path: sun_path has 108 bytes, including a NUL (unix(7)).
    UNIX_PATH_BYTES_LIMIT = 107
    # Maximum attempts to find a port that is free on all addresses of a host.
    CHOSEN_PORT_TRIES = 10

    # Host names that always mean loopback (RFC 6761, section 6.3).
    LOCALHOST = /\Alocalhost\.?\z/i
    private_constant :LOCALHOST

    # Versions of the PROXY protocol.
    PROXY_PROTOCOLS = %w[v1 v2 any].freeze

    # Maps each scheme to its transport; :ssl means TCP with TLS.
    SCHEMES = { "tcp" => :tcp, "http" => :tcp, "udp" => :udp, "ssl" => :ssl, "https" => :ssl, "tls" => :ssl }.freeze
    private_constant :SCHEMES

    # Each transport's form of address.
    FORMS = { tcp: "tcp://host:port", unix: "unix:///path", udp: "udp://host:port", unixgram: "unixgram:///path" }.freeze

    # @return [Symbol] :tcp, :unix, :udp or :unixgram
    attr_reader :transport
    # @return [String, nil] as written, without brackets; "*": every address of this machine
    attr_reader :host
    # @return [Integer, nil] 0: the kernel chooses
    attr_reader :port
    # @return [String, nil] a Unix socket's; "@…": in Linux's abstract namespace
    attr_reader :path
    # @return [Integer, nil] the socket file's permissions; nil: by the umask
    attr_reader :mode
    # @return [Hash{Symbol => Object}, nil] TLS settings in the address; nil: no TLS
    attr_reader :tls
    # @return [String, nil] "v1", "v2" or "any": connections begin with a PROXY header
    attr_reader :proxy_protocol
    # @return [Integer, nil] connections that may wait; nil: {BACKLOG}
    attr_reader :backlog
    # @return [String, nil] the kernel's congestion control for TCP, as "bbr"; nil: the usual one
    attr_reader :congestion

    class << self
      # Reads an address.
      #
      # - `tcp://host:port` or `http://host:port`: `host` is a name, an IPv4 address, an IPv6
      #   address in brackets, or `*` (every address). `localhost` is 127.0.0.1 and ::1, if present.
      # - `unix:///path`, `unix://relative/path`, `unix://@abstract`. `?mode=0660` sets permissions.
      # - `host:port`, `:port` (every address), `host`, `port` and `/path` are short forms.
      # - `ssl://host:port?cert=PATH&key=PATH` (also `https://`, `tls://`) and
      #   `unix:///path?cert=PATH&key=PATH` set TLS, if the caller supports it. `%3F` means `?`.
      # - `?proxy_protocol=v1`, `v2` or `any`: connections begin with a PROXY header, if the caller
      #   supports it.
      # - `?backlog=1024`: maximum connections that wait to be accepted. Puma's options are allowed:
      #   `?umask=0117` for a Unix socket, and `?low_latency=true`, which changes nothing.
      # - `?congestion=bbr`: TCP's congestion control (tcp(7)), if this kernel has it.
      # - `udp://host:port` and `unixgram:///path`: datagrams, if the caller supports them.
      # @param address [String, Integer, Endpoint]
      # @param host [String] if the address is only a port
      # @param port [Integer] if the address has none
      # @param transports [Array<Symbol>] the caller's: :tcp, :unix, :udp, :unixgram
      # @param tls [Boolean] whether the caller takes and checks TLS settings in an address
      # @param proxy [Boolean] whether the caller takes the PROXY protocol
      # @return [Endpoint]
      # @raise [ArgumentError] tells what was expected
      def parse(address, host: "localhost", port: 9292, transports: %i[tcp unix], tls: false, proxy: false)
        endpoint = case address
                   when Endpoint then address
                   when String, Integer then read(address.to_s.strip, host, port)
                   end
        unless endpoint && transports.include?(endpoint.transport)
          raise ArgumentError, "#{address.is_a?(String) ? address.strip.inspect : address.inspect} is not an address: write #{forms(transports, tls)}"
        end
        raise ArgumentError, "#{endpoint}: the PROXY protocol is not supported here" if endpoint.proxy_protocol && !proxy
        return endpoint if tls || endpoint.tls.nil?

        raise ArgumentError, "#{endpoint}: TLS is not part of an address here: write tcp://, and set TLS beside the address, or let a proxy end it"
      end

      private

      # @return [Endpoint, nil] nil unless it is an address
      def read(text, host, port)
        place, _, query = text.partition("?")
        settings = parse_query(text, query)
        options = options(text, settings)
        case place
        when %r{\A(unix|unixgram):(?://)?+(.*)\z}i then parse_unix(text, $2, $1.downcase.to_sym, settings, options)
        when %r{\A/} then parse_unix(text, place, :unix, settings, options)
        when %r{\A(#{SCHEMES.keys.join("|")})://(.*)\z}io then parse_ip(text, $2.delete_suffix("/"), SCHEMES[$1.downcase], port, settings, options)
        when %r{\A[a-z][a-z0-9+.-]*://}i, "", /\s/ then nil
        when /\A\d+\z/ then parse_ip(text, ":#{place}", :tcp, port, settings, options, host)
        else parse_ip(text, place, :tcp, port, settings, options)
        end
      end

      # Removes a stream's options from the settings and returns them.
      def options(text, settings)
        proxy, backlog, low_latency, congestion = %i[proxy_protocol backlog low_latency congestion].map { |name| settings.delete(name) }
        wrong = if proxy && !PROXY_PROTOCOLS.include?(proxy) then "proxy_protocol is v1, v2 or any"
                elsif backlog && !backlog.match?(/\A[1-9]\d{0,8}\z/) then "backlog is a number of connections"
                elsif congestion && !congestion.match?(/\A[a-z][a-z0-9_-]{0,14}\z/) then "congestion is a name like bbr"
                elsif low_latency && low_latency != "true" then "low_latency is always on (TCP_NODELAY): leave it out"
                end
        raise ArgumentError, "#{text.inspect} is not an address: #{wrong}" if wrong

        { proxy_protocol: proxy, backlog: backlog&.to_i, congestion: congestion }
      end

      def forms(transports, tls)
        words = FORMS.values_at(*transports)
        words.insert(1, "ssl://host:port") if tls && transports.include?(:tcp)
        words += ["host:port", "a port"] if transports.include?(:tcp)
        words.size == 1 ? words.first : "#{words[0..-2].join(", ")} or #{words.last}"
      end

      def parse_query(text, query)
        query.split("&").to_h do |pair|
          name, value = pair.split("=", 2)
          raise ArgumentError, "#{text.inspect} is not an address: write ?name=value&name=value" if name.to_s.empty? || value.nil?

          [name.to_sym, value.b.gsub(/%(\h\h)/) { $1.hex.chr }.force_encoding(text.encoding)]
        end
      end

      def parse_ip(text, authority, scheme, default_port, settings, options, default_host = "*")
        tls, settings = settings, {} if scheme == :ssl
        match = /\A(?:\[(?<v6>[0-9a-f:.]+(?:%[\w.-]+)?)\]|(?<name>(?!-)[\w.*-]*))(?::(?<port>\d+))?\z/i.match(authority)
        if match.nil? || authority.empty? || settings.any?
          raise ArgumentError, "#{text.inspect} is not an address: #{ip_hint(authority, scheme, settings)}"
        end

        host = match[:v6] || match[:name]
        host = default_host if host.empty?
        new(scheme == :udp ? :udp : :tcp, host: host, port: match[:port] ? parse_port(match[:port], text) : default_port, tls: tls, **options)
      end

      def ip_hint(authority, scheme, settings)
        return "with TLS it is ssl://host:port?cert=PATH&key=PATH" if settings.key?(:cert)
        return "only ?proxy_protocol=v1, ?backlog=1024 and ?congestion=bbr may follow it" if settings.any?
        return "an IPv6 address goes in brackets, as in #{scheme}://[::1]:9292" if authority.count(":") > 1
        return "the port must be a number from 0 to 65535" if authority.match?(/:(?!\d+\z)[^:]*\z/)

        "write #{FORMS.fetch(scheme, "ssl://host:port")}"
      end

      def parse_port(digits, text)
        port = digits.to_i
        return port if port <= 65_535

        raise ArgumentError, "#{text.inspect} is not an address: the port must be a number from 0 to 65535"
      end

      def parse_unix(text, path, transport, tls, options)
        mode, umask = tls.delete(:mode), tls.delete(:umask)
        unless [mode, umask].compact.all?(/\A0?[0-7]{3}\z/) && (tls.empty? || tls.key?(:cert)) && !options[:congestion]
          raise ArgumentError, "#{text.inspect} is not an address: after the path ?mode=0660 (octal permissions), umask and backlog are known"
        end
        raise ArgumentError, "#{text.inspect} is not an address: the path is missing" if path.empty? || path == "@" || path.end_with?("/")
        raise ArgumentError, "#{text.inspect} is not an address: an abstract socket has no permissions" if (mode || umask) && path.start_with?("@")

        new(transport, path: path, mode: mode&.to_i(8) || (umask && (0o777 & ~umask.to_i(8))), tls: (tls unless tls.empty?), **options)
      end
    end

    # @param transport [Symbol] :tcp, :unix, :udp or :unixgram
    # @param host [String, nil] for :tcp and :udp
    # @param port [Integer, nil] for :tcp and :udp
    # @param path [String, nil] for :unix and :unixgram
    # @param mode [Integer, nil] permissions, for :unix and :unixgram
    # @param tls [Hash{Symbol => Object}, nil]
    # @param proxy_protocol [String, nil] one of {PROXY_PROTOCOLS}
    # @param backlog [Integer, nil] connections that may wait
    # @param congestion [String, nil] the kernel's congestion control
    # @raise [ArgumentError] the path is too long for the kernel
    def initialize(transport, host: nil, port: nil, path: nil, mode: nil, tls: nil, proxy_protocol: nil, backlog: nil, congestion: nil)
      @transport = transport
      @host = host
      @port = port
      @path = path
      @mode = mode
      @tls = tls&.dup&.freeze
      @proxy_protocol = proxy_protocol
      @backlog = backlog
      @congestion = congestion
      @to_s = "#{tls && !path ? "ssl" : transport}://#{path || authority}".freeze
      freeze
      return if path.nil? || path.bytesize <= UNIX_PATH_BYTES_LIMIT

      raise ArgumentError, "#{to_s.inspect} is not an address: the path of a Unix socket has at most #{UNIX_PATH_BYTES_LIMIT} bytes, " \
                           "this one has #{path.bytesize}"
    end

    # Opens one listener for a Unix socket, or one for each address of a host. Opens all or none.
    # @param backlog [Integer] unless the address sets it
    # @param except [Array<String>] IP addresses to leave out
    # @return [Array<Gyre::Listener>]
    # @raise [SystemCallError] Errno::EADDRINUSE, EACCES, EADDRNOTAVAIL …; names this endpoint
    # @raise [SocketError] the host has no address
    def bind(backlog: BACKLOG, except: [])
      backlog = @backlog || backlog
      return [Listener.unix(self, backlog: backlog)] if path

      tries = 0
      begin
        bind_addresses(backlog, except)
      rescue Errno::EADDRINUSE
        # The port that the kernel chose for one address may be in use at another.
        raise unless port.zero? && (tries += 1) < CHOSEN_PORT_TRIES

        retry
      end
    end

    # @return [Array<String>] IP addresses
    # @raise [SocketError] the host has none
    # @api private
    def addresses
      case host
      when "*"          then ["0.0.0.0", "::"]
      when LOCALHOST    then ["127.0.0.1", "::1"]
      else Addrinfo.getaddrinfo(host, nil, nil, :STREAM).map(&:ip_address).uniq
      end
    rescue SocketError => error
      raise SocketError, "listen on #{self}: no address for #{host.inspect} (#{error.message})"
    end

    # Connects. Over TCP, connects to the first address that answers.
    # @param timeout_s [Numeric, nil] for name and TCP connection; a Unix socket never waits
    # @param only [#to_proc, nil] takes an Addrinfo of a TCP host; false skips it
    # @return [Socket]
    # @raise [SystemCallError] names the attempts; Errno::EAGAIN: a Unix socket's queue is full
    # @raise [SocketError] the host has no address
    def connect(timeout_s, only: nil)
      return connect_to_path if path

      Net::Connector.new(self, timeout_s, only).connect
    end

    # @return [Addrinfo] a Unix socket's
    def unix_address = Addrinfo.unix(path.sub(/\A@/, "\0"))

    # @return [String] with the scheme, for {.parse}; without TLS settings, which may be secret
    attr_reader :to_s

    # @param scheme [String] for TCP without TLS
    # @return [String] for users: http://localhost:9292, or unix:///path
    def url(scheme = "http") = transport == :tcp ? "#{tls ? "https" : scheme}://#{authority}" : to_s

    # @return [String, nil] the host for resolvers, some of which do not know "localhost."
    # @api private
    def resolvable_host = LOCALHOST.match?(host.to_s) ? "localhost" : host

    # @return [Boolean] whether it is for datagrams
    def datagram? = %i[udp unixgram].include?(transport)

    # @param port [Integer] the kernel's
    # @param host [String] the bound address
    # @param tls [Hash{Symbol => Object}, nil]
    # @return [Endpoint] a copy with these
    def with(port: @port, host: @host, tls: @tls)
      Endpoint.new(transport, host: host, port: port, path: path, mode: mode, tls: tls, proxy_protocol: @proxy_protocol, backlog: @backlog,
                              congestion: @congestion)
    end

    # @return [Boolean]
    def ==(other)
      other.is_a?(Endpoint) && identity == other.identity
    end
    alias eql? ==

    # @return [Integer]
    def hash = identity.hash

    # @return [String]
    def inspect = "#<#{self.class} #{self}>"

    protected

    def identity = [transport, host, port, path, mode, tls, proxy_protocol]

    private

    def connect_to_path
      socket = Socket.new(:UNIX, :STREAM)
      socket.connect_nonblock(unix_address)
      connected = socket
    rescue SystemCallError => error
      raise error.class, "connect to #{self}"
    ensure
      socket&.close unless connected
    end

    def authority = "#{host.include?(":") ? "[#{host}]" : host}:#{port}"

    # Skips addresses that this machine does not have, if another address remains.
    def bind_addresses(backlog, except)
      listeners = []
      missing = nil
      (addresses - except).each do |ip|
        chosen = port.zero? && listeners.any? ? listeners.first.port : port
        listeners << Listener.ip(with(host: ip, port: chosen), backlog: backlog, only_v6: ip != host)
      rescue Errno::EADDRNOTAVAIL, Errno::EAFNOSUPPORT => error
        missing = error
      end
      raise missing if missing && listeners.empty? && except.empty?

      listeners
    rescue SystemCallError
      listeners.each(&:close)
      raise
    end
  end
end
