# frozen_string_literal: true

# Parses and checks addresses of remote outputs, for Output and the configuration. Never connects.
# Errors show no password.

require "gyre/net/endpoint"

module Gyre
  module Log
    module Output
      module Remote
        # Matches an address or the name of a standard stream. Other texts are paths.
        ELSEWHERE = %r{\A(?:-|STD(?:OUT|ERR)|/dev/std(?:out|err)|/(?:dev|proc/self)/fd/[12]|[a-z][a-z0-9+]*://.*)?\z}i.freeze
        # Maps schemes of addresses to types of outputs.
        TYPES = { "tcp" => "socket", "unix" => "socket", "redis" => "redis", "rediss" => "redis", "redis+unix" => "redis" }.freeze
        REDIS_PORT = 6379
        REDIS = %r{\A(?<scheme>rediss?|redis\+unix|unix)://
                   (?:(?:(?<user>[^:@/]*):)?(?<password>[^@/]*)@)?
                   (?:\[(?<v6>[^\]]+)\]|(?<host>[^:/?]*))(?::(?<port>\d+))?(?<path>/[^?]*)?(?:\?(?<query>.*))?\z}x.freeze
        # What may follow "?", by scheme. With TLS: keywords of TLS.client.
        REDIS_OPTIONS = { "redis" => [], "rediss" => %i[ca cert key verify], "redis+unix" => %i[db], "unix" => %i[db] }.freeze
        # A Redis server. `number` is the number of the database as text; `login` is an Array of
        # user and password, as far as they are given.
        Database = Struct.new(:endpoint, :number, :login)

        module_function

        # Returns an address's type; nil for a path. Raises ArgumentError for an unknown scheme.
        def type(target)
          scheme = target[%r{\A([a-z][a-z0-9+.-]*)://}i, 1] or return
          TYPES.fetch(scheme) do
            raise ArgumentError, "nothing can be written to #{scheme}://; there are: #{TYPES.keys.map { |name| "#{name}://" }.join(", ")}"
          end
        end

        # Returns equal values for all names of one file.
        def same_file(target)
          return target if target.match?(ELSEWHERE)

          ::File.realdirpath(target)
        rescue SystemCallError # no such folder
          ::File.expand_path(target)
        end

        def check(target)
          case type(target)
          when "socket" then endpoint(target)
          when "redis" then database(target)
          end
        end

        # Takes an address, a path, or a host with the port in `options` (as in Analogger).
        def socket_address(target, options = nil)
          port = Array(options).first.to_s
          return target if target.include?("://")
          return "unix://#{target}" if target.start_with?("/")
          return "tcp://#{target}" if target.match?(/:\d+\z/) && port.empty?
          return "tcp://#{target}:#{port}" if port.match?(/\A\d+\z/)

          raise ArgumentError, "a socket needs tcp://host:port, unix:///path, or a host with options: [port]"
        end

        def endpoint(address)
          endpoint = Endpoint.parse(address, host: "*", port: 0)
          return endpoint if endpoint.path || (endpoint.host != "*" && endpoint.port.positive?)

          raise ArgumentError, "#{address.inspect} is not an address to connect to: write tcp://host:port or unix:///path"
        end

        def redis_address(target)
          return target if target.include?("://")

          target.start_with?("/") ? "redis+unix://#{target}" : "redis://#{target}"
        end

        def database(url)
          match = REDIS.match(url) or raise ArgumentError, "write redis://user:password@host:port/database (rediss:// with TLS) or redis+unix:///path"
          unix = match[:scheme].end_with?("unix")
          options = options(match)
          number = (unix ? options[:db] : match[:path].to_s.delete_prefix("/")).to_s
          raise ArgumentError, "the database of a redis:// address is a number" unless number.match?(/\A\d*\z/)

          login = match.values_at(:user, :password).map { |text| decode(text.to_s) }.reject(&:empty?)
          Database.new(unix ? at_path(match[:path]) : at_port(match, (options if match[:scheme] == "rediss")), number, login)
        end

        def options(match)
          options = match[:query].to_s.split("&").to_h { |pair| pair.partition("=").then { |name, _, value| [name.to_sym, decode(value)] } }
          known = REDIS_OPTIONS.fetch(match[:scheme])
          unknown = options.keys - known
          raise ArgumentError, "#{match[:scheme]}:// has no option #{unknown.first}; there are: #{known.join(", ")}" if unknown.any?

          options.key?(:verify) ? { **options, verify: options[:verify] != "false" } : options
        end

        def at_path(path)
          raise ArgumentError, "the path of the Unix socket is missing" if path.to_s.end_with?("/") || path.nil?

          Endpoint.new(:unix, path: path)
        end

        # The defaults are 127.0.0.1 and REDIS_PORT.
        def at_port(match, tls)
          host = match[:v6] || match[:host]
          port = (match[:port] || REDIS_PORT).to_i
          raise ArgumentError, "the port must be a number from 1 to 65535" unless port.between?(1, 65_535)

          Endpoint.new(:tcp, host: host.empty? ? "127.0.0.1" : host, port: port, tls: tls)
        end

        def decode(text) = text.gsub(/%(\h\h)/) { Regexp.last_match(1).hex.chr }
      end
    end
  end
end
