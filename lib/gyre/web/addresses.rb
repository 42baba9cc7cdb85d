# frozen_string_literal: true

# Parses a web server's addresses and their TLS settings, for Gyre::Web::Server and `gyre serve`.

require "gyre/net/tls_settings"

module Gyre
  module Web
    module Addresses
      DEFAULT_PORT = 9292

      HOST_NAME = Gyre::Settings::Type.new("HOST", "a host name, or one that begins with *.") do |value|
        value.downcase if value.is_a?(String) && value.match?(/\A(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\z/i)
      end
      NAMES = Gyre::Settings.row(:names, HOST_NAME, "hosts that the certificate is for (SNI); without names it is for all others", list: true)

      # TLS settings in the query of an address.
      TLS_SETTINGS = Gyre::Settings.new({ nil => TLS::ROWS }, what: "setting of TLS", foreign: TLS::FOREIGN_WORDS) do |values, faults|
        faults.add(nil, "a cert needs its key, and a key its cert") if values.key?(:cert) != values.key?(:key)
      end
      # Settings of one certificate, as the configuration file's word `tls` takes them.
      CERTIFICATE = Gyre::Settings.new(
        { nil => [*TLS::ROWS, NAMES] },
        what: "setting of TLS", foreign: TLS::FOREIGN_WORDS, needs: %i[cert key]
      )

      module_function

      # Returns the addresses of :bind, followed by :host with :port if one of these is given. If no
      # address is set, returns localhost in development, and every address otherwise (like rackup).
      def listen(settings, environment, default_port: DEFAULT_PORT)
        addresses = Array(settings[:bind])
        host = settings[:host] || (environment == "development" ? "localhost" : "*")
        port = settings[:port] || default_port
        addresses += [tcp(host, port)] if addresses.empty? || settings[:host] || settings[:port]
        secure(addresses.map { |address| endpoint(address, port: port) }, settings[:tls]).uniq
      end

      # Returns the endpoints. If `tls` is given and none of them has TLS, all TCP endpoints get it.
      def secure(endpoints, tls)
        return endpoints if tls.nil? || endpoints.any?(&:tls)

        endpoints.map { |endpoint| endpoint.path ? endpoint : endpoint.with(tls: {}) }
      end

      def endpoint(address, **options)
        endpoint = Endpoint.parse(address, tls: true, proxy: true, **options)
        endpoint.tls ? endpoint.with(tls: TLS_SETTINGS.read(endpoint.tls)) : endpoint
      rescue ArgumentError => error
        raise error unless endpoint

        raise ArgumentError, "#{endpoint}: #{error.message}"
      end

      def tcp(host, port)
        host = "[#{host}]" if host.to_s.count(":") > 1 && !host.start_with?("[")
        "tcp://#{host}:#{port}"
      end
    end
  end
end
