# frozen_string_literal: true

# Makes the TLS contexts of a web server's addresses out of their settings: reads the files, asks
# for passphrases, finds the certificate for development. Gyre::Web::Server calls it when it
# listens, and again when certificates are to be read again. It keeps nothing that it has read.

require "gyre/cli/errors"
require "gyre/http/h2"
require "gyre/net/tls"
require "gyre/web/tls_settings"

module Gyre
  module Web
    # Settings in, contexts out. A mistake is a StartError that names the address or the file.
    class TLSContexts
      VERIFY = { "none" => false, "peer" => :optional, "force_peer" => true }.freeze
      DAY_S = 86_400
      # A certificate that ends sooner is warned about.
      SOON_S = 7 * DAY_S
      REPORTED = {}
      private_constant :VERIFY, :DAY_S, :SOON_S, :REPORTED

      # @param given [true, Array<Hash>, nil] true: a certificate for development; or the settings
      #   of each certificate (see TLSSettings), those of names with :names; the one without is for
      #   all others. Two of the same names are a pair, with an RSA and an ECDSA key
      # @param log [#info, #error]
      # @param ticket_keys [TLS::TicketKeys, nil] nil: those of this process
      # @param protocols [Array<String>] for ALPN, the preferred one first
      def initialize(given, log:, ticket_keys: nil, protocols: TLSContexts.protocols)
        @given = given
        @log = log
        @ticket_keys = ticket_keys
        @protocols = protocols
      end

      # @return [Array<String>] what this build serves
      def self.protocols = HTTP::H2.available? ? %w[h2 http/1.1] : %w[http/1.1]

      # @param endpoints [Array<Endpoint>]
      # @return [Array<Endpoint>] (see TLSSettings.endpoints)
      def endpoints(endpoints) = TLSSettings.endpoints(endpoints, @given)

      # @param endpoints [Array<Endpoint>]
      # @return [Hash{Hash => TLS::Context}] by the settings that endpoints have ({Endpoint#tls})
      # @raise [StartError] names what is wrong, and where
      def contexts(endpoints)
        secure = endpoints.select(&:tls)
        secure.each_with_object({}) { |endpoint, made| made[endpoint.tls] ||= context(endpoint, secure) }
      rescue ArgumentError, ExtensionRequired => error
        raise StartError, error.message
      end

      # Logs which certificates are out of date, or soon will be; each once.
      #
      # @param contexts [Array<TLS::Context>]
      # @return [void]
      def warn(contexts)
        all = contexts.flat_map { |context| [context, *context.names.values] }
        all.flat_map { |context| [context, *context.pair] }.uniq.each { |context| warn_of(context) }
      end

      private

      def context(endpoint, secure)
        return server([endpoint.tls]) if endpoint.tls.any?
        return development(secure) if @given == true
        return server(@given) if @given

        raise StartError, "#{endpoint}: a certificate is missing: write ?cert=PATH&key=PATH behind the address, set tls in the " \
                          "configuration file, or take --tls for a certificate of development"
      end

      def development(secure)
        require "gyre/web/development_certificate"
        certificate = DevelopmentCertificate.new(hosts: secure.filter_map(&:host).uniq)
        pem = certificate.pem
        @log.info("  certificate for development: #{certificate.path}") unless @announced
        @announced = true
        TLS.server(certificate: pem, key: pem, **common)
      end

      def server(all)
        default = all.find { |settings| !settings.key?(:names) } || all.first
        defaults, others = all.partition { |settings| settings[:names] == default[:names] }
        made = {}
        names = by_name(others).to_h { |name, settings| [name, made[settings] ||= TLS.server(**identities(settings, name))] }
        TLS.server(names: names, **identities(defaults, "all other hosts"), **policy(default), **common)
      end

      def by_name(all)
        all.each_with_object({}) { |settings, by| settings[:names].each { |name| (by[name] ||= []) << settings } }
      end

      # One certificate, or a pair.
      def identities(all, hosts)
        first, second, third = all
        return identity(first) unless second

        raise StartError, "tls: three certificates are for #{hosts}, and there can be two, with an RSA and an ECDSA key: leave one out" if third

        wrong = policy_names(second)
        return { **identity(first), pair: TLS.server(**identity(second)) } if wrong.empty?

        raise StartError, "tls: #{wrong.join(", ")} of the second certificate for #{hosts} has no effect: write it beside the first one"
      end

      def policy_names(settings)
        settings.keys & %i[ca verify_mode verification_flags ssl_cipher_filter ssl_ciphersuites min_version]
      end

      def common = { alpn: @protocols, ticket_keys: @ticket_keys ||= TLS::TicketKeys.shared }

      def identity(settings)
        { certificate: settings[:cert] || settings[:cert_pem], key: settings[:key] || settings[:key_pem], ocsp: settings[:ocsp],
          key_passphrase: passphrase(settings[:key_password_command]) }
      end

      def policy(settings)
        { ca: settings[:ca], verify: VERIFY.fetch(settings[:verify_mode], false), ciphers: settings[:ssl_cipher_filter],
          verification_flags: settings[:verification_flags] || [], ciphersuites: settings[:ssl_ciphersuites],
          min_version: settings[:min_version] || "1.2" }
      end

      # The command's output without its line end (as Puma has it). Its status is unknown where the
      # app ignores SIGCHLD.
      def passphrase(command)
        return unless command

        output = IO.popen(command, &:read)
        well = $?.nil? || $?.success?
        return output.chomp if well && !output.chomp.empty?

        raise StartError, "key_password_command: #{command} #{well ? "printed nothing" : "failed (#{$?.to_s.sub(/\Apid \d+ /, "")})"}"
      rescue SystemCallError => error
        raise StartError, "key_password_command: #{command}: #{error.message}"
      end

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
        staple = context.ocsp_next_update
        report("tls: the OCSP response for #{name} was due for renewal at #{staple.utc}, and is not sent") if staple && staple <= now
      end

      # Once in a process and those that it forks.
      def report(message)
        @log.error(message) unless REPORTED[message]
        REPORTED[message] = true
      end
    end
  end
end
