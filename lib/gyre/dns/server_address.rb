# frozen_string_literal: true

# Parses the address of a name server. Used by Gyre::DNS::Upstream and `gyre dns query`. Does not
# resolve names: a UDP server is given by its IP address.

require "ipaddr"
require "socket"
require "resolv"

module Gyre
  module DNS
    # @return [IPAddr]
    # @raise [ArgumentError] with the text, which IPAddr's own error omits
    # @api private
    def self.network(text)
      IPAddr.new(text)
    rescue IPAddr::Error
      raise ArgumentError, "#{text.inspect} is not an IP address or network"
    end

    # `name` is the name that the server's certificate must have; `path` is for HTTPS.
    ServerAddress = Struct.new(:protocol, :host, :port, :name, :path) do
      self::PORTS = { "udp" => 53, "tcp" => 53, "tls" => 853, "https" => 443 }.freeze
      self::FORM = %r{\A(?:(?<scheme>\w+)://)?(?:\[(?<v6>[^\]]+)\]|(?<host>[^\[\]:/#]+))(?::(?<port>\d{1,5}))?
                      (?<path>/[^\#]*)?(?:\#(?<name>[\w.-]+))?\z}x.freeze

      # Parses "192.0.2.1", "udp://192.0.2.1:53", "tcp://…", "tls://192.0.2.1:853#name" or
      # "https://host/dns-query". An IPv6 address with a port needs brackets.
      # @param text [String, ServerAddress]
      # @return [ServerAddress]
      # @raise [ArgumentError]
      def self.parse(text)
        return text if text.is_a?(self)
        return new("udp", text, 53) if text.match?(Resolv::IPv6::Regex)

        parts = self::FORM.match(text)
        protocol = parts && (parts[:scheme] || "udp")
        host = parts && (parts[:v6] || parts[:host])
        port = parts && (parts[:port]&.to_i || self::PORTS[protocol])
        unless port&.between?(1, 65_535) && self::PORTS.key?(protocol) && (protocol == "https" ? parts[:name].nil? : parts[:path].nil?) &&
               (protocol != "udp" || host.match?(Resolv::AddressRegex))
          raise ArgumentError, "#{text.inspect} is not a name server: write an IP address (over UDP always), udp://, tcp:// or " \
                               "tls://address:port, tls://address#name or https://host/path"
        end

        new(protocol, host, port, parts[:name], parts[:path] || ("/dns-query" if protocol == "https"))
      end

      # @return [Boolean]
      def udp? = protocol == "udp"

      # Finds the zone of a link-local address (fe80::1%eth0) without getaddrinfo, whose hook in a
      # scheduler may wait.
      # @return [Addrinfo] over UDP
      # @raise [Errno::ENODEV] the zone does not exist at the moment
      def addrinfo
        address, zone = host.split("%", 2)
        return @addrinfo ||= Addrinfo.udp(host, port) unless zone

        index = Integer(zone, 10, exception: false) || Socket.getifaddrs.find { |each| each.name == zone }&.ifindex or raise Errno::ENODEV, zone
        sockaddr = Socket.sockaddr_in(port, address)
        sockaddr[24, 4] = [index].pack("L") # sin6_scope_id
        Addrinfo.new(sockaddr, nil, :DGRAM)
      end

      # @return [String] host and port
      def authority = "#{host.include?(":") ? "[#{host}]" : host}:#{port}"

      # @return [String] as {.parse} reads it
      def to_s = "#{protocol}://#{authority}#{path}#{"##{name}" if name}"
    end
  end
end
