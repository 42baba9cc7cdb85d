# frozen_string_literal: true

# Makes TLS contexts from the addresses' settings: reads files, or takes the development
# certificate. Used by Listening, and by `gyre serve` for checks. Keeps no file's content.

require "gyre/http/h2"
require "gyre/net/tls"
require "gyre/web/addresses"

module Gyre
  module Web
    # Raises StartError, whose message names the faulty address or file.
    class TLSContexts
      DAY_S = 86_400
      # A warning is logged if a certificate expires within these seconds.
      SOON_S = 7 * DAY_S
      REPORTED = {}

      # `given`: certificates (one without :names serves all other hosts), or true for a certificate
      # for development. `challenges`: see TLS.server.
      def initialize(given, log:, challenges: nil)
        @given = given
        @log = log
        @challenges = challenges
      end

      def endpoints(endpoints) = Addresses.secure(endpoints, @given)

      # Returns contexts by {Endpoint#tls}. Raises StartError.
      def contexts(endpoints)
        secure = Addresses.secure(endpoints, @given).select(&:tls)
        secure.each_with_object({}) { |endpoint, made| made[endpoint.tls] ||= context(endpoint, secure) }
      rescue ArgumentError, ExtensionRequired => error
        raise StartError, error.message
      end

      # Logs once each certificate that is not valid yet, expires soon or has expired.
      def warn(contexts) = contexts.flat_map { |context| [context, *context.names.values] }.uniq.each { |context| warn_of(context) }

      private

      def context(endpoint, secure)
        return server([endpoint.tls]) if endpoint.tls.any?
        return development(secure) if @given == true
        return server(@given) if @given

        raise StartError, "#{endpoint}: a certificate is missing: write ?cert=PATH&key=PATH after the address, set tls in the " \
                          "configuration file, or take --tls for a certificate of development"
      end

      def development(secure)
        require "gyre/web/development_certificate"
        certificate = DevelopmentCertificate.new(hosts: secure.filter_map(&:host).uniq)
        pem = certificate.pem
        @log.info("  certificate for development: #{certificate.path}") unless @announced
        @announced = true
        TLS.server(cert: pem, key: pem, **common)
      end

      def server(all)
        names = all.flat_map { |settings| settings.fetch(:names, ["all other hosts"]) }
        twice = names.find { |name| names.count(name) > 1 }
        raise StartError, "tls: two certificates are for #{twice}: leave one out, or name the hosts that it is for" if twice

        default = all.find { |settings| !settings.key?(:names) } || all.first
        others = (all - [default]).each_with_object({}) do |settings, by_name|
          context = TLS.server(**settings.slice(:cert, :key))
          settings[:names].each { |name| by_name[name] = context }
        end
        TLS.server(names: others, **policy(default), **common, challenges: @challenges)
      end

      def common = { alpn: HTTP::H2.available? ? %w[h2 http/1.1] : %w[http/1.1], ticket_keys: TLS::TicketKeys.shared }

      def policy(settings) = settings.slice(:cert, :key, :ca, :crl, :verify, :ciphers, :ciphersuites, :min_version)

      def warn_of(context)
        now = Time.now
        name = context.name
        if context.not_before > now
          report("tls: #{name} is good from #{context.not_before.utc} on only: clients refuse it before")
        elsif context.not_after <= now
          report("tls: #{name} ended at #{context.not_after.utc}: clients refuse it; put a new one there and send HUP")
        elsif context.not_after - now < SOON_S
          report("tls: #{name} ends at #{context.not_after.utc}")
        end
      end

      # Logs a message once in a process. Later forks do not repeat it.
      def report(message)
        @log.error(message) unless REPORTED[message]
        REPORTED[message] = true
      end
    end
  end
end
