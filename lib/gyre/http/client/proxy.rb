# frozen_string_literal: true

# Chooses the proxy of a server by the environment, as curl and others read it. Asks no name server:
# no_proxy's networks are compared only with hosts that are addresses. Called by Origin.

require "ipaddr"
require "uri"

module Gyre
  module HTTP
    class Client
      module Proxy
        # A CGI program's HTTP_PROXY would be the header "Proxy" of its request.
        NAMES = { "http" => %w[http_proxy], "https" => %w[https_proxy HTTPS_PROXY] }.freeze
        private_constant :NAMES

        class << self
          # @param given [String, Symbol, nil] :environment, an address or none
          # @return [URI::HTTP, nil]
          def for(given, scheme, host, port)
            given = by_environment(scheme, host, port) if given == :environment
            return if given.nil? || given == ""

            given = "http://#{given}" unless given.to_s.include?("://") # as curl reads it
            URI(given.to_s).tap { |uri| raise URI::Error unless uri.instance_of?(URI::HTTP) && !uri.host.to_s.empty? }
          rescue URI::Error
            raise ArgumentError, "proxy: write http://host:port", cause: nil # the cause may show a password
          end

          # Decodes %XX of a user name or password; "+" is itself (RFC 3986, section 2.1).
          def decode(word) = word.to_s.gsub(/%(\h\h)/) { $1.hex.chr }

          private

          def by_environment(scheme, host, port)
            names = NAMES.fetch(scheme)
            names += %w[HTTP_PROXY] if scheme == "http" && !ENV.key?("REQUEST_METHOD")
            proxy = ENV.values_at(*names).compact.first
            proxy unless proxy.nil? || direct?(host.delete("[]"), port)
          end

          def direct?(host, port)
            address = address(host)
            return true if host == "localhost" || address&.loopback?

            ENV.values_at("no_proxy", "NO_PROXY").compact.first.to_s.downcase.split(/[\s,]+/).any? do |rule|
              rule == "*" || (address ? covers?(rule, address, port) : names?(rule, host, port))
            end
          end

          # "domain", ".domain" and "*.domain" are the domain and all below it.
          def names?(rule, host, port)
            name, own_port = rule.split(":", 2)
            name = name.to_s.delete_prefix("*").delete_prefix(".")
            !name.empty? && (own_port.nil? || own_port.to_i == port) && ".#{host}".end_with?(".#{name}")
          end

          def covers?(rule, address, port)
            text, own_port = rule.match(/\A\[?([\h:]*:[\h:]*:[\h:.]*(?:\/\d+)?)\]?(?::(\d+))?\z|\A([^:]+)(?::(\d+))?\z/)&.captures&.compact
            network = address(text.to_s)
            !network.nil? && (own_port.nil? || own_port.to_i == port) && network.include?(address)
          end

          def address(text)
            IPAddr.new(text) if text.match?(/\A[\h:.]+(?:\/\d+)?\z/)
          rescue IPAddr::Error
            nil
          end
        end
      end
    end
  end
end
