# frozen_string_literal: true

# Makes TLS contexts from options: certificates and keys (files or PEM), authorities, protocols,
# host names. Called by servers and clients of all protocols. Raises an ArgumentError that names an
# invalid file. ext/gyre/net/tls*.c calls libssl. Never prompts for a passphrase.
require "gyre/loop"

Gyre::Loop.define_native(:net)

module Gyre
  # TLS 1.2 and 1.3. Servers use Mozilla's intermediate configuration without DHE, restricted by the
  # system's security level. Clients use libssl's defaults.
  module TLS
    # The peer violated the TLS protocol, or its certificate is invalid.
    class Error < Gyre::Error; end

    # The stream ended without TLS's closure alert and may be truncated (RFC 8446, section 6.1). A
    # truncation is harmless if each message states its length.
    class Truncated < Error; end

    class << self
      # @return [Boolean] whether the extension was built with libssl
      def available? = Loop.native? && Context.private_method_defined?(:build)

      # Makes a server's context.
      # @param cert [String] PEM or path: the server's certificate, then those up to the root
      # @param key [String] PEM or path
      # @param key_passphrase [String, nil]
      # @param names [Hash{String => Context}] certificates by host name (SNI); "*.example.org" fits
      # @param alpn [Array<String>] protocols, the preferred first (RFC 7301)
      # @param ca [String, nil] PEM file or folder (`openssl rehash`) with clients' authorities
      # @param verify [Boolean, :optional] whether clients must show a certificate
      # @param crl [String, nil] PEM or path: a revocation list of each authority
      # @param ciphers [String, nil] for TLS 1.2, see openssl-ciphers(1)
      # @param ciphersuites [String, nil] for TLS 1.3
      # @param min_version [String] "1.2" or "1.3"
      # @param ticket_keys [TicketKeys, nil] resume sessions across contexts and processes
      # @param challenges [String, nil] a folder of answers to ACME's tls-alpn-01, NAME.challenge
      # @return [Context]
      # @raise [ArgumentError] names the missing, unreadable or invalid file
      # @raise [ExtensionRequired] without libssl
      def server(cert:, key:, names: {}, ca: nil, crl: nil, verify: !ca.nil?, **options)
        raise ArgumentError, "tls: to verify clients, ca must name the authorities whose certificates are good" if verify && ca.nil?
        raise ArgumentError, "tls: crl is for certificates of clients, and verify is false" if crl && !verify

        Context.new(server: true, cert: cert, key: key, ca: ca, crl: crl, verify: verify, **options, names: names)
      end

      # Makes a client's context. It resumes the newest session of each of its last 64 servers.
      # @param ca [String, nil] PEM file or folder; nil: the system's authorities
      # @param cert [String, nil] the client's certificate, PEM or path
      # @param key [String, nil] its key, PEM or path
      # @param alpn [Array<String>] as for {server}
      # @param verify [Boolean] verifies certificate and name; false only for tests
      # @param particulars [Hash] for adapters: `store`, an OpenSSL::X509::Store in place of `ca`;
      #   `any_name`; `oldest`, `newest`, versions in libssl's numbers; `ciphers`
      # @return [Context]
      # @raise [ArgumentError] names the missing, unreadable or invalid file
      # @raise [ExtensionRequired] without libssl
      def client(ca: nil, cert: nil, key: nil, alpn: [], verify: true, particulars: {})
        raise ArgumentError, "tls: a cert needs its key, and a key its cert" if cert.nil? != key.nil?

        Context.new(server: false, cert: cert, key: key, ca: ca, verify: verify, alpn: alpn, particulars: particulars)
      end

      # @return [Context] for `tls: true`; one per Ractor, as reading authorities takes 20 ms
      # @raise [ExtensionRequired] without libssl
      def shared_client = Ractor.current[:gyre_tls_client] ||= client

      # @api private
      # @param given [Object] a caller's tls:
      # @param server [Boolean] which side it is for
      # @return [Context, nil]
      # @raise [ArgumentError] for anything else
      def context(given, server:)
        return unless given
        return shared_client if given == true && !server
        return given if given.is_a?(Context) && given.server? == server

        got = given.is_a?(Context) ? given.inspect : given.class # options may hold a private key
        raise ArgumentError, "tls: here it must be a context of Gyre::TLS.#{server ? "server" : "client"}, got #{got}"
      end
    end

    # TLS settings and keys of a server or a client. Transports of all threads may share a context.
    # Made by {TLS.server} and {TLS.client}.
    class Context
      VERIFY = { false => 0, :optional => 1, true => 2 }.freeze
      VERSIONS = { "1.2" => 0x303, "1.3" => 0x304 }.freeze
      PEM = "-----BEGIN"
      # Matches a key's text, as opposed to a path: several lines, or DER in base64.
      KEY_TEXT = %r{\n|\AM[A-Za-z0-9+/]{40,}=*\z}.freeze
      private_constant :VERIFY, :VERSIONS, :PEM, :KEY_TEXT

      # Requires the extension only here, because the portable engine loads this file, too.
      # @api private
      def self.new(*, **)
        Loop.require_native("TLS")
        super
      end

      # @api private
      def initialize(server:, cert:, key:, ca:, verify:, names: {}, crl: nil, alpn: [], key_passphrase: nil, ciphers: nil, ciphersuites: nil,
                     min_version: "1.2", ticket_keys: nil, challenges: nil, particulars: {})
        unless self.class.private_method_defined?(:build)
          raise ExtensionRequired, "TLS needs OpenSSL 3, which was missing when Gyre was built: install it (Debian: libssl-dev) and " \
                                   "reinstall the gem"
        end

        raise ArgumentError, "tls: a server needs a certificate and its key" if server && (cert.nil? || key.nil?)

        names.each_value { |identity| TLS.context(identity, server: true) }

        @server = server
        @verifies = verify ? true : false
        @certificate_name = name_of(cert)
        @names = names.dup.freeze
        chain = certificates(cert)
        # Reads a file that both name only once, because another program may replace it meanwhile.
        build({ server: server, certificate: chain, key: key == cert ? chain : pem("key", key), key_passphrase: key_passphrase,
                certificate_name: @certificate_name, key_name: name_of(key), **authorities(ca), crl: pem("crl", crl), crl_name: name_of(crl),
                verify: mode(verify), store: nil, any_name: false, ciphers: ciphers, suites: ciphersuites, tickets: ticket_keys,
                challenges: challenges, alpn: protocols(alpn), oldest: version(min_version), newest: 0, groups: nil, dh_parameters: nil,
                **particulars })
        names.each { |name, identity| add_name(name, identity) }
      end

      # @return [Hash{String => Context}] a server's other certificates by host name
      attr_reader :names

      # @return [String] the certificate's, in messages
      def name = "the certificate#{" #{@certificate_name}" if @certificate_name}"

      # @return [Time, nil] begin of the certificate's validity
      def not_before = time(0)

      # @return [Time, nil] end of the certificate's validity
      def not_after = time(1)

      # @return [Boolean] whether it requests peers' certificates
      def verifies? = @verifies

      # @return [Boolean] whether {TLS.server} made it
      def server? = @server

      # @return [String]
      def inspect = "#<#{self.class} of a #{@server ? "server" : "client"}>"

      private

      def time(index)
        seconds = times&.fetch(index)
        Time.at(seconds) unless seconds.nil? || seconds.zero?
      end

      # Returns a path for messages; nil for a key's text, even if it is an invalid PEM.
      def name_of(text) = (text unless text.nil? || text.include?(PEM) || text.b.match?(KEY_TEXT))

      def mode(verify) = VERIFY.fetch(verify) { raise ArgumentError, "tls: verify must be true, false or :optional, got #{verify.inspect}" }

      def version(name) = VERSIONS.fetch(name) { raise ArgumentError, "tls: min_version must be 1.2 or 1.3, got #{name.inspect}" }

      # Reads the file first, because libssl's errors do not name the file.
      def authorities(path)
        return {} unless path

        File.directory?(path) ? { ca_folder: path, authorities: path } : { ca_file: path, authorities: read("ca", path).delete("\0") }
      end

      def certificates(text)
        pem = pem("certificate", text)
        return pem if pem.nil? || pem.match?(/^-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/)

        raise ArgumentError, "tls: the certificate #{"#{name_of(text)} " if name_of(text)}holds no PEM certificate"
      end

      # Returns a PEM or reads it from a file. Rejects DER, which contains NUL bytes.
      def pem(what, text)
        pem = text.nil? || text.include?(PEM) ? text : read(what, text)
        return pem unless pem&.include?("\0")

        raise ArgumentError, "tls: the #{["#{what} ", name_of(text)].join.strip} cannot be read: it must be in PEM"
      end

      def read(what, path)
        File.binread(path)
      rescue SystemCallError => error
        raise ArgumentError, "tls: the #{what} is neither PEM nor the path of a file" unless name_of(path)

        raise ArgumentError, "tls: the #{what} #{path}: #{error.message.sub(/ @ .*/, "")}"
      end

      # Encodes protocol names for ALPN. A byte with the length precedes each name.
      def protocols(names)
        names.map do |name|
          raise ArgumentError, "tls: alpn: a protocol has 1 to 255 bytes, got #{name.inspect}" unless (1..255).cover?(name.bytesize)

          [name.bytesize].pack("C") << name.b
        end.join.b
      end
    end

    # Keys of session tickets (RFC 8446, section 4.6.1). Each interval has a new key; the previous
    # two keys still decrypt. Processes with the same keys resume each other's sessions. They
    # compute the same later keys, but cannot compute past keys.
    class TicketKeys
      INTERVAL_S = 2 * 3600 # libssl's lifetime of a session

      class << self
        # Requires the extension, which allocates the object.
        # @api private
        def new(*, **)
          Loop.require_native("TLS")
          raise ExtensionRequired, "TLS needs OpenSSL 3, which was missing when Gyre was built" unless private_method_defined?(:build)

          super
        end

        # @return [TicketKeys] of this process and its forks, or another process's
        # @raise [ExtensionRequired]
        def shared = @shared ||= new

        # @param saved [String] {#save}'s result in another process
        # @return [TicketKeys]
        # @raise [ArgumentError] anything else
        def load(saved) = new(saved: saved)

        # Uses another process's keys, unless their format has another version.
        # @api private
        # @param text [String, nil] {export}'s result, which is secret
        # @return [void]
        def adopt(text)
          @shared = load(text.unpack1("m")) if text
        rescue ArgumentError
          nil # sessions of the other process are not resumed
        end

        # @api private
        # @return [String] in ASCII
        def export = [shared.save].pack("m0")
      end

      # @param interval_s [Integer] seconds that a key encrypts
      # @param saved [String, nil] {#save}'s result
      # @raise [ArgumentError]
      def initialize(interval_s: INTERVAL_S, saved: nil)
        raise ArgumentError, "tls: interval_s must be 1 or more" unless interval_s.is_a?(Integer) && interval_s.positive?

        build(saved || interval_s)
      end

      # @return [String]
      def inspect = "#<#{self.class}>"
    end
  end
end
