# frozen_string_literal: true

# Parses addresses of memcached servers in Dalli's forms. Called once by the client.

require "uri"

module Gyre
  module Memcached
    # `path`: a Unix socket's, then without a port.
    Address = Struct.new(:host, :port, :path, :weight, :user, :password, keyword_init: true) do
      # Takes "host", "host:port:weight", "[::1]:11211", "/path:weight", "unix:///path",
      # "memcached://user:password@host:port", Arrays or comma-separated; nil: $MEMCACHE_SERVERS or
      # 127.0.0.1:11211.
      def self.list(servers)
        servers = from_environment if servers.nil?
        texts = Array(servers)
        unless (servers.is_a?(String) || servers.is_a?(Array)) && texts.all?(String)
          raise ArgumentError, "servers must be a String or an Array of Strings like 127.0.0.1:11211, got #{servers.inspect[0, 80]}"
        end

        texts.flat_map { |text| text.split(",") }.map(&:strip).reject(&:empty?).map { |text| parse(text) }
      end

      # Returns at least one address; raises ArgumentError.
      def self.some(servers)
        list = list(servers)
        return list unless list.empty?

        raise ArgumentError, "servers: #{servers.inspect} names none; give addresses like 127.0.0.1:11211, or nil for $MEMCACHE_SERVERS or " \
                             "#{self::DEFAULT}"
      end

      def self.parse(text)
        return parse_uri(text) if text.start_with?("memcached://", "unix://")

        match = self::FORM.match(text) || refuse(text)
        if text.start_with?("/")
          refuse(text) if match[:second]
          return new(path: match[:name], weight: weight(match[:first], text)).freeze
        end
        new(host: match[:six] || match[:name], port: port(match[:first], text), weight: weight(match[:second], text)).freeze
      end

      # Decides keys' placement, like Dalli's server names.
      def name = path || "#{host}:#{port}"

      def unix? = !path.nil?

      def inspect = "#<Gyre::Memcached::Address #{name}#{" weight=#{weight}" unless weight == 1}>"
      alias_method :to_s, :name

      def self.from_environment
        given = ENV.fetch("MEMCACHE_SERVERS", "")
        given.strip.empty? ? self::DEFAULT : given
      end

      def self.parse_uri(text)
        uri = URI.parse(text)
        if uri.scheme == "unix"
          refuse(text) unless uri.path.to_s.start_with?("/") && uri.host.to_s.empty?
          return new(path: uri.path, weight: 1).freeze
        end
        refuse(text) if uri.hostname.to_s.empty?
        decode = ->(part) { part && URI.decode_www_form_component(part.gsub("+", "%2B")) }
        new(host: uri.hostname, port: uri.port || self::PORT, weight: 1, user: decode[uri.user], password: decode[uri.password]).freeze
      rescue URI::InvalidURIError
        refuse(text)
      end

      def self.port(digits, text)
        port = digits ? Integer(digits, 10) : self::PORT
        return port if port.between?(1, 65_535)

        raise ArgumentError, "the port of server #{shown(text)} must be from 1 to 65535"
      end

      def self.weight(digits, text)
        weight = digits ? Integer(digits, 10) : 1
        return weight if weight.positive?

        raise ArgumentError, "the weight of server #{shown(text)} must be at least 1"
      end

      def self.refuse(text)
        raise ArgumentError, "#{shown(text)} is not a server address; use host:port, host:port:weight, /path/of/socket or memcached://host:port"
      end

      # Hides the password.
      def self.shown(text) = text.sub(%r{//.*@}m, "//…@").inspect[0, 120]
    end

    Address::PORT = 11_211
    Address::DEFAULT = "127.0.0.1:11211"
    Address::FORM = /\A(?<name>\[(?<six>[\h:.]+)\]|[^:\[\]\s]+)(?::(?<first>\d+))?(?::(?<second>\d+))?\z/
  end
end
