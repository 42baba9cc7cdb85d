# frozen_string_literal: true

# What transports need to speak TLS: certificates and keys as files or PEM, authorities, protocols, host names. libssl does the work
# (ext/gyre/net/tls.c).
module Gyre
  module TLS
    # The peer broke TLS, or its certificate is not good.
    class Error < Gyre::Error; end

    # The peer's stream ended without TLS's end: it may have been cut (RFC 8446, section 6.1). A protocol whose messages have their
    # length may take it for an end.
    class Truncated < Error; end

    # TLS 1.2 and 1.3 for one side of connections. Immutable; may be shared by threads.
    class Context
      VERIFY = { false => 0, :optional => 1, true => 2 }.freeze
      private_constant :VERIFY

      class << self
        # The context of a server.
        #
        # @param certificate [String] PEM, or the path of a file: the server's certificate, behind it those up to the root
        # @param key [String] PEM, or the path of a file, without a passphrase
        # @param names [Hash{String => Context}] other identities by host name; "*.example.org" stands for one label (SNI)
        # @param alpn [Array<String>] protocols, the preferred one first
        # @param ca [String, nil] path of a file or folder with the authorities of clients' certificates
        # @param verify [Boolean, :optional] whether clients must show a certificate
        # @return [Context]
        # @raise [ArgumentError]
        def server(certificate:, key:, names: {}, alpn: [], ca: nil, verify: !ca.nil?)
          raise ArgumentError, "tls: to verify clients, ca must name the authorities whose certificates are good" if verify && ca.nil?

          new(true, certificate, key, ca, verify, alpn).tap do |context|
            names.each { |name, identity| context.send(:add_name, name, identity) }
          end
        end

        # The context of a client.
        #
        # @param ca [String, nil] path of a file or folder; nil: the system's authorities
        # @param certificate [String, nil] the client's own, PEM or path
        # @param key [String, nil]
        # @param alpn [Array<String>]
        # @param verify [Boolean] false takes any server: for tests only
        # @return [Context]
        # @raise [ArgumentError]
        def client(ca: nil, certificate: nil, key: nil, alpn: [], verify: true)
          raise ArgumentError, "tls: a certificate needs its key, and a key its certificate" if certificate.nil? != key.nil?

          new(false, certificate, key, ca, verify, alpn)
        end

        private :new
      end

      # @api private
      def initialize(server, certificate, key, authorities, verify, alpn)
        mode = VERIFY.fetch(verify) { raise ArgumentError, "tls: verify must be true, false or :optional, got #{verify.inspect}" }
        identity = [certificates(certificate), pem("key", key)]
        names = [certificate, key].map { |text| text unless text.nil? || text.include?(PEM) }
        folder = authorities && File.directory?(authorities)
        read("ca", authorities) if authorities && !folder
        build(server, identity, names, folder ? [nil, authorities] : [authorities, nil], mode,
              alpn.map { |protocol| [protocol.bytesize].pack("C") << protocol }.join.b)
      end

      private

      PEM = "-----BEGIN"
      private_constant :PEM

      def certificates(text)
        pem = pem("certificate", text)
        return pem if pem.nil? || pem.match?(/^-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/)

        raise ArgumentError, "tls: the certificate #{"#{text} " unless text.include?(PEM)}holds no PEM certificate"
      end

      def pem(what, text)
        text.nil? || text.include?(PEM) ? text : read(what, text)
      end

      def read(what, path)
        File.binread(path)
      rescue SystemCallError => error
        raise ArgumentError, "tls: the #{what} #{path}: #{error.message.sub(/ @ .*/, "")}"
      end
    end
  end
end
