# frozen_string_literal: true

# What can be set for TLS: one table for the query of an address (ssl://host:port?cert=…&key=…) and
# for the word `tls` of the configuration file. The names are Puma's where Puma has one.
# Gyre::Web::Settings checks with it; Gyre::Web::TLSContexts reads the files. It opens nothing.

require "did_you_mean"
require "gyre/net/values"
require "gyre/net/endpoint"
require "gyre/net/tls"

module Gyre
  module Web
    # The settings of one certificate and its key, as a Hash by these names.
    module TLSSettings
      # A setting: its name, its type (see {check}) and one line that describes it.
      Row = Struct.new(:name, :type, :meaning)

      VERIFY_MODES = %w[none peer force_peer].freeze
      VERSIONS = %w[1.2 1.3].freeze

      TABLE = [
        Row.new(:cert, :text, "a file with the certificate and, behind it, those between it and the root (PEM)"),
        Row.new(:key, :text, "the file of its private key (PEM)"),
        Row.new(:cert_pem, :text, "the certificates themselves, instead of cert"),
        Row.new(:key_pem, :text, "the private key itself, instead of key"),
        Row.new(:key_password_command, :text, "a command that prints the passphrase of an encrypted key"),
        Row.new(:ca, :text, "a file or folder with the authorities of clients' certificates (PEM)"),
        Row.new(:verify_mode, VERIFY_MODES, "clients' certificates: not asked for, verified where a client shows one, or required"),
        Row.new(:verification_flags, :flags, "how clients' certificates are verified, with commas between"),
        Row.new(:ssl_cipher_filter, :text, "the ciphers of TLS 1.2, as openssl-ciphers(1) writes them"),
        Row.new(:ssl_ciphersuites, :text, "the ciphers of TLS 1.3"),
        Row.new(:min_version, VERSIONS, "the lowest version of TLS"),
        Row.new(:ocsp, :text, "a file with the OCSP response that is stapled (DER)")
      ].each(&:freeze).freeze

      # Settings of Puma that have no effect here, and the values that they may have.
      WITHOUT_EFFECT = { no_tlsv1: "true", no_tlsv1_1: "true" }.freeze
      # Names in other servers, and what to write here.
      FOREIGN = {
        certificate: "write cert", ssl_certificate: "write cert", ssl_certificate_key: "write key", cert_path: "write cert",
        key_path: "write key", ca_file: "write ca", reuse: "leave it out: sessions are resumed by tickets",
        ssl_stapling_file: "write ocsp"
      }.freeze

      module_function

      # @param settings [Hash{Symbol => Object}] as written
      # @return [Hash{Symbol => Object}] checked; without those that have no effect
      # @raise [ArgumentError] names the setting and what is expected
      def read(settings)
        read = settings.each_with_object({}) do |(name, value), checked|
          next if without_effect?(name, value)

          checked[name] = check(name, value)
        end
        complete(read)
      end

      # Which addresses speak TLS: those that are written so; where there is none, but `tls` is set,
      # every TCP address.
      #
      # @param endpoints [Array<Endpoint>]
      # @param given [true, Array<Hash>, nil] the setting `tls`
      # @return [Array<Endpoint>]
      def endpoints(endpoints, given)
        return endpoints if given.nil? || endpoints.any?(&:tls)

        endpoints.map { |endpoint| endpoint.path ? endpoint : endpoint.with(tls: {}) }
      end

      # The settings of one certificate, as the word `tls` has them.
      #
      # @param given [Hash] the table's names, and :names, the hosts that it is for
      # @return [Hash{Symbol => Object}]
      # @raise [ArgumentError]
      def certificate(given)
        settings = given.to_h { |name, value| [name.to_sym, value] }
        names = settings.delete(:names)
        read = read(settings)
        raise ArgumentError, "a certificate needs cert and key, or cert_pem and key_pem" unless read.key?(:cert) || read.key?(:cert_pem)

        names ? read.merge(names: Array(names).map { |name| host(name) }) : read
      end

      # An address, and what stands behind it checked.
      #
      # @param address [Object] as {Gyre::Endpoint.parse} reads it
      # @param options [Hash] of {Gyre::Endpoint.parse}
      # @return [Endpoint]
      # @raise [ArgumentError]
      def endpoint(address, **options)
        endpoint = Endpoint.parse(address, tls: true, proxy: true, **options)
        endpoint.tls ? endpoint.with(tls: read(endpoint.tls)) : endpoint
      rescue ArgumentError => error
        raise error unless endpoint

        raise ArgumentError, "#{endpoint}: #{error.message}"
      end

      # In the letters of DNS, as clients send it.
      def host(name)
        return name.downcase if name.is_a?(String) && name.match?(/\A(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\z/i)

        Values.expect("a host name, or one that begins with *.", name)
      end

      def check(name, value)
        row = TABLE.find { |each| each.name == name } or raise ArgumentError, "#{name} is no setting of TLS; #{hint(name)}"
        row.type == :flags ? flags(name, value) : Values.check(row.type, value, name: name)
      end

      def flags(name, value)
        names = Array(value).join(",").upcase.split(/\s*,\s*/)
        unknown = names.find { |name| !TLS::VERIFICATION_FLAGS.key?(name) }
        unknown ? Values.expect("some of #{TLS::VERIFICATION_FLAGS.keys.join(", ")}", unknown, name: name) : names
      end

      def hint(name)
        return FOREIGN[name] if FOREIGN.key?(name)

        names = TABLE.map(&:name)
        near = DidYouMean::SpellChecker.new(dictionary: names).correct(name).first
        near ? "did you mean #{near}?" : "there are: #{names.join(", ")}"
      end

      def without_effect?(name, value)
        return false unless WITHOUT_EFFECT.key?(name)
        return true if value.to_s == WITHOUT_EFFECT.fetch(name)

        raise ArgumentError, "#{name}: TLS 1.0 and 1.1 are not supported"
      end

      def complete(read)
        { cert: :cert_pem, key: :key_pem }.each do |file, text|
          raise ArgumentError, "#{file} and #{text} exclude each other" if read.key?(file) && read.key?(text)
        end
        certificate = read.key?(:cert) || read.key?(:cert_pem)
        raise ArgumentError, "a cert needs its key, and a key its cert" if certificate != (read.key?(:key) || read.key?(:key_pem))
        raise ArgumentError, "verify_mode: #{read[:verify_mode]} needs ca, the authorities of clients' certificates" if verifies?(read) && !read[:ca]
        raise ArgumentError, "ca needs verify_mode: peer or force_peer" if read[:ca] && !read[:verify_mode]

        read
      end

      def verifies?(read) = ![nil, "none"].include?(read[:verify_mode])

      private_class_method :host, :check, :flags, :hint, :without_effect?, :complete, :verifies?
    end
  end
end
