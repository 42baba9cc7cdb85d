# frozen_string_literal: true

# Parses addresses of memcached servers in Dalli's forms. Called once by the client.

require "gyre/net/endpoint"

module Gyre
  module Memcached
    Address = Struct.new(:endpoint, :weight, :user, :password) do
      self::DEFAULT = "127.0.0.1:11211"
      self::FORM = %r{\A(?:memcached://(?:(?<user>[^\s:/@]+)(?::(?<password>[^\s/@]*))?@)?)?
                      (?<place>(?:unix://)?/[^\s:?]+|(?:\[[\h:.]+\]|[^\s:/?\[\]]+)(?::[1-9]\d*)?)(?::(?<weight>[1-9]\d*))?/?\z}x.freeze

      # Takes an Array or a comma-separated String of "host", "host:port:weight", "[::1]:11211",
      # "/path:weight", "unix:///path" and "memcached://user:password@host:port". If `servers` is
      # nil, takes $MEMCACHE_SERVERS or 127.0.0.1:11211.
      def self.list(servers)
        servers = [ENV["MEMCACHE_SERVERS"], self::DEFAULT].find { |text| text.to_s.strip != "" } if servers.nil?
        texts = Array(servers)
        unless (servers.is_a?(String) || servers.is_a?(Array)) && texts.all?(String)
          raise ArgumentError, "servers must be a String or an Array of Strings like 127.0.0.1:11211, got #{servers.inspect[0, 80]}"
        end

        texts.flat_map { |text| text.split(",") }.map(&:strip).reject(&:empty?).map { |text| parse(text) }
      end

      # Works like {list}, but raises ArgumentError if the list is empty.
      def self.some(servers)
        list = list(servers)
        return list unless list.empty?

        raise ArgumentError, "servers: #{servers.inspect} names none; give addresses like 127.0.0.1:11211, or nil for $MEMCACHE_SERVERS or " \
                             "#{self::DEFAULT}"
      end

      # Its error's message shows no password.
      def self.parse(text)
        parts = self::FORM.match(text) or
          raise ArgumentError, "#{text.sub(%r{//.*@}m, "//…@").inspect[0, 120]} is not a server address; use host:port, host:port:weight, " \
                               "/path/of/socket or memcached://host:port"
        user, password = [parts[:user], parts[:password]].map { |part| part&.b&.gsub(/%(\h\h)/) { $1.hex.chr }&.force_encoding("UTF-8") }
        new(Endpoint.parse(parts[:place], port: 11_211), (parts[:weight] || 1).to_i, user, password).freeze
      end

      # {Ring} places the server by this name, which is the same as in Dalli.
      def name = endpoint.path || "#{endpoint.host}:#{endpoint.port}"
      alias_method :to_s, :name

      def inspect = "#<Gyre::Memcached::Address #{name}#{" weight=#{weight}" unless weight == 1}>"
    end
  end
end
