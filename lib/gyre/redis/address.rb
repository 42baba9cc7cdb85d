# frozen_string_literal: true

# Parses the URL of a Redis server (connection.rb). Never connects. Errors show no password.

require "gyre/net/endpoint"

module Gyre
  module Redis
    # `number` is the number of the database as text; `login` is an Array of user and password, as
    # far as they are given.
    Address = Struct.new(:endpoint, :number, :login)

    class Address
      PORT = 6379
      PATTERN = %r{\A(?<scheme>rediss?|redis\+unix|unix)://
                 (?:(?:(?<user>[^:@/]*):)?(?<password>[^@/]*)@)?
                 (?:\[(?<v6>[^\]]+)\]|(?<host>[^:/?]*))(?::(?<port>\d+))?(?<path>/[^?]*)?(?:\?(?<query>.*))?\z}x.freeze
      # What may follow "?", by scheme. With TLS: keywords of TLS.client.
      OPTIONS = { "redis" => [], "rediss" => %i[ca cert key verify], "redis+unix" => %i[db], "unix" => %i[db] }.freeze

      class << self
        def parse(url)
          match = PATTERN.match(url) or
            raise ArgumentError, "write redis://user:password@host:port/database (rediss:// with TLS) or redis+unix:///path"
          unix = match[:scheme].end_with?("unix")
          options = options(match)
          number = (unix ? options[:db] : match[:path].to_s.delete_prefix("/")).to_s
          raise ArgumentError, "the database of a redis:// address is a number" unless number.match?(/\A\d*\z/)

          login = match.values_at(:user, :password).map { |text| decode(text.to_s) }.reject(&:empty?)
          new(unix ? at_path(match[:path]) : at_port(match, (options if match[:scheme] == "rediss")), number, login)
        end

        private

        def options(match)
          options = match[:query].to_s.split("&").to_h { |pair| pair.partition("=").then { |name, _, value| [name.to_sym, decode(value)] } }
          known = OPTIONS.fetch(match[:scheme])
          unknown = options.keys - known
          raise ArgumentError, "#{match[:scheme]}:// has no option #{unknown.first}; there are: #{known.join(", ")}" if unknown.any?

          options.key?(:verify) ? { **options, verify: options[:verify] != "false" } : options
        end

        def at_path(path)
          raise ArgumentError, "the path of the Unix socket is missing" if path.to_s.end_with?("/") || path.nil?

          Endpoint.new(:unix, path: path)
        end

        # The defaults are 127.0.0.1 and PORT.
        def at_port(match, tls)
          host = match[:v6] || match[:host]
          port = (match[:port] || PORT).to_i
          raise ArgumentError, "the port must be a number from 1 to 65535" unless port.between?(1, 65_535)

          Endpoint.new(:tcp, host: host.empty? ? "127.0.0.1" : host, port: port, tls: tls)
        end

        def decode(text) = text.gsub(/%(\h\h)/) { Regexp.last_match(1).hex.chr }
      end
    end
  end
end
