# frozen_string_literal: true

# TLS of EventMachine's connections. Makes Gyre::TLS contexts from start_tls's arguments.
# Certificates are verified by ssl_verify_peer or, if the options say so, by authorities.

module Gyre
  module EventMachine
    # Bits of TLS versions; programs read them.
    EM_PROTO_SSLv2, EM_PROTO_SSLv3, EM_PROTO_TLSv1, EM_PROTO_TLSv1_1, EM_PROTO_TLSv1_2, EM_PROTO_TLSv1_3 = 2, 4, 8, 16, 32, 64
    OPENSSL_NO_SSL2 = OPENSSL_NO_SSL3 = true

    # Sets up a stream's TLS from start_tls's arguments and verifies the peer.
    # @api private
    class Handshake
      VERSIONS = { "tlsv1" => 0x301, "tlsv1_1" => 0x302, "tlsv1_2" => 0x303, "tlsv1_3" => 0x304 }.freeze
      CONTEXTS_LIMIT = 64

      @contexts = {}
      @identities = {}

      class << self
        def pem(der) = "-----BEGIN CERTIFICATE-----\n#{[der].pack("m48")}-----END CERTIFICATE-----\n"

        # Connections with the same settings and files share a context.
        def context(key)
          @contexts.clear if @contexts.size > CONTEXTS_LIMIT
          @contexts[key] ||= yield
        end

        # Makes a self-signed certificate for a server that has no certificate, as in EventMachine.
        # Uses RSA only if the program chooses ciphers, as making an RSA key takes 0.3 s.
        def identity(rsa)
          @identities[rsa] ||= begin
            require "openssl"
            key = rsa ? OpenSSL::PKey::RSA.new(2048) : OpenSSL::PKey::EC.generate("prime256v1")
            certificate = OpenSSL::X509::Certificate.new
            certificate.version = 2
            certificate.serial = 1
            certificate.subject = certificate.issuer = OpenSSL::X509::Name.parse("/CN=EventMachine")
            certificate.public_key = key
            certificate.not_before = Time.now - 86_400
            certificate.not_after = Time.now + (10 * 365 * 86_400)
            { cert: certificate.sign(key, "SHA256").to_pem, key: key.to_pem }
          end
        end
      end

      def initialize(arguments)
        @arguments = arguments.reject { |_, value| value.respond_to?(:empty?) && value.empty? }
        check_files
        check_identity
        @versions = versions
        @stream = @error = nil
      end

      # The exception that ssl_verify_peer has raised.
      attr_reader :error

      def started? = !@stream.nil?

      # Begins TLS; nil if libssl supports none of the versions.
      def start(stream)
        return if @versions == []

        stream.transport.begin_tls(context(stream.server?), name: @arguments[:sni_hostname])
        @stream = stream
        stream.transport.judge_by(method(:judge), @arguments[:fail_if_no_peer_cert]) if @arguments[:verify_peer] && !verified?
        self
      end

      private

      # Runs within libssl, where no fiber may be switched.
      def judge(der)
        EventMachine.unscheduled { @stream.ssl_verify_peer(Handshake.pem(der)) }
      rescue Exception => error # rubocop:disable Lint/RescueException -- raised behind libssl
        @error = error
        false
      end

      def context(server)
        Handshake.context([server, @arguments, files.map { |file| File.mtime(file) }]) do
          TLS::Context.new(server: server, **identity(server), **options, particulars: particulars(server))
        rescue ArgumentError => error
          raise InvalidPrivateKey, error.message
        end
      end

      # True if authorities verify the peer.
      def verified? = @arguments[:verify] || @arguments[:ca]

      def files = @arguments.values_at(:private_key_file, :cert_chain_file, :ca, :dhparam).compact

      def check_files
        missing = files.find { |file| !File.exist?(file) }
        raise FileNotFoundException, "Could not find #{missing} for start_tls" if missing
      end

      def check_identity
        cert, cert_file, key, key_file = @arguments.values_at(:cert, :cert_chain_file, :private_key, :private_key_file)
        raise BadPrivateKeyParams, "Specifying both private_key and private_key_file not allowed" if key && key_file
        raise BadCertParams, "Specifying both cert and cert_chain_file not allowed" if cert && cert_file
        raise BadParams, "You have specified a private key to use, but not the related cert" if (key || key_file) && !(cert || cert_file)
      end

      def versions
        return unless @arguments[:ssl_version]

        names = Array(@arguments[:ssl_version]).flatten.map { |name| name.to_s.downcase } - %w[sslv2 sslv3] # libssl lacks these
        names.map { |name| VERSIONS.fetch(name) { raise "Unrecognized SSL/TLS Protocol: #{name}" } }
      end

      def identity(server)
        cert = @arguments[:cert] || @arguments[:cert_chain_file]
        key = @arguments[:private_key] || @arguments[:private_key_file]
        return { cert: cert, key: key || cert, key_passphrase: @arguments[:private_key_pass] } if cert

        server ? Handshake.identity(!@arguments[:cipher_list].nil?) : { cert: nil, key: nil }
      end

      def options
        list = @arguments[:cipher_list]
        ciphers = list&.tr(",", ":")
        # libssl's default security level refuses versions before 1.2.
        ciphers = list || "ALL:@SECLEVEL=0" if @versions && @versions.min < VERSIONS["tlsv1_2"]
        { ca: @arguments[:ca], verify: verified? ? true : false, ciphers: ciphers, alpn: @arguments[:alpn] || [] }
      end

      # A server uses TLS 1.3 only if ssl_version includes it. With TLS 1.2 a client that is refused
      # gets the error in the handshake, before the server's callback, as old programs expect.
      def particulars(server)
        newest = @versions ? @versions.max : (VERSIONS["tlsv1_2"] if server)
        { oldest: @versions&.min, newest: newest, groups: @arguments[:ecdh_curve],
          dh_parameters: (File.read(@arguments[:dhparam]) if @arguments[:dhparam]) }.compact
      end
    end

    class << self
      # Takes the constants with libssl's version from Ruby's openssl.
      def const_missing(name)
        return super unless %i[OPENSSL_VERSION OPENSSL_LIBRARY_VERSION].include?(name)

        require "openssl"
        const_set(name, OpenSSL.const_get(name))
      end

      # @api private
      def set_tls_parms(signature, handshake) = reactor.descriptors[signature]&.handshake = handshake

      def start_tls(signature) = reactor.descriptors[signature]&.start_tls

      # Runs the block without the scheduler.
      def unscheduled(&block) = Fiber.new(blocking: true, &block).resume
    end

    class Connection
      # Begins TLS. `ssl_handshake_completed` is called afterwards. Takes private_key_file:,
      # cert_chain_file:, private_key:, cert:, private_key_pass:; verify_peer: (ssl_verify_peer
      # decides), fail_if_no_peer_cert:; verify:, ca: (authorities decide; a client needs
      # sni_hostname:); ssl_version:, cipher_list:, ecdh_curve:, dhparam:, alpn:. Raises
      # FileNotFoundException, BadParams, InvalidPrivateKey.
      def start_tls(arguments = {})
        EventMachine.set_tls_parms(@signature, Handshake.new(arguments))
        EventMachine.start_tls(@signature)
        nil
      end

      # Returns PEM or nil.
      def get_peer_cert = @gyre_descriptor.transport&.peer_certificate_der&.then { |der| Handshake.pem(der) }

      def get_cipher_bits = @gyre_descriptor.transport&.tls_cipher_bits

      def get_cipher_name = @gyre_descriptor.transport&.tls_cipher

      def get_cipher_protocol = @gyre_descriptor.transport&.tls_version

      # Returns the name that the client asked for, or nil.
      def get_sni_hostname = @gyre_descriptor.transport&.tls_server_name

      # Returns the negotiated protocol, or nil.
      def get_alpn_protocol = @gyre_descriptor.transport&.alpn
    end
  end
end
