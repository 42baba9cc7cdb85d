# frozen_string_literal: true

# TLS as settings: paths of certificates and keys in, an OpenSSL::SSL::SSLContext for a server or a client out. Servers and
# clients of every protocol take theirs here. What is wrong with a file is an ArgumentError that names it, before anything
# starts. It opens no socket and never asks for a passphrase.

require "openssl"

module Gyre
  # Contexts of TLS 1.2 and newer.
  module TLS
    # Ciphers and the like are left to OpenSSL, which the system's administrator configures.
    MIN_VERSION = OpenSSL::SSL::TLS1_2_VERSION

    class << self
      # The context of a server.
      #
      # @param certificate [String] path of a PEM file: the server's certificate, behind it those between it and the root
      # @param key [String] path of its private key (PEM)
      # @param ca [String, nil] path of a PEM file or folder (as `openssl rehash` makes it) with the authorities whose client
      #   certificates are good
      # @param verify [Boolean, :optional] whether clients must show a certificate; :optional takes those without one, too
      # @return [OpenSSL::SSL::SSLContext] frozen
      # @raise [ArgumentError] names the file that is missing, unreadable or wrong
      def server(certificate:, key:, ca: nil, verify: !ca.nil?)
        raise ArgumentError, "tls: to verify clients, ca must name the authorities whose certificates are good" if verify && ca.nil?

        context = new_context
        add_identity(context, certificate, key)
        add_authorities(context, ca) if ca
        context.verify_mode = server_mode(verify)
        context.session_id_context = "gyre" if verify # without it, OpenSSL refuses to resume the sessions of verified clients
        context.tap(&:freeze) # which is setup, and returns true
      end

      # The context of a client. The server's name is checked against its certificate when the socket's hostname is set.
      #
      # @param ca [String, nil] path of a PEM file or folder; nil: the system's authorities
      # @param certificate [String, nil] path of the client's own certificate (PEM)
      # @param key [String, nil] path of its private key
      # @param verify [Boolean] false takes any server: for tests only
      # @return [OpenSSL::SSL::SSLContext] frozen
      # @raise [ArgumentError] names the file that is missing, unreadable or wrong
      def client(ca: nil, certificate: nil, key: nil, verify: true)
        context = new_context
        if certificate || key
          raise ArgumentError, "tls: a certificate needs its key, and a key its certificate" unless certificate && key

          add_identity(context, certificate, key)
        end
        ca ? add_authorities(context, ca) : context.cert_store = system_authorities
        context.verify_mode = verify ? OpenSSL::SSL::VERIFY_PEER : OpenSSL::SSL::VERIFY_NONE
        context.verify_hostname = verify
        context.tap(&:freeze) # which is setup, and returns true
      end

      private

      def new_context
        OpenSSL::SSL::SSLContext.new.tap { |context| context.min_version = MIN_VERSION }
      end

      def server_mode(verify)
        case verify
        when true then OpenSSL::SSL::VERIFY_PEER | OpenSSL::SSL::VERIFY_FAIL_IF_NO_PEER_CERT
        when :optional then OpenSSL::SSL::VERIFY_PEER
        when false then OpenSSL::SSL::VERIFY_NONE
        else raise ArgumentError, "tls: verify must be true, false or :optional, got #{verify.inspect}"
        end
      end

      def add_identity(context, certificate, key)
        first, *between = certificates(certificate)
        private_key = private_key(key)
        unless first.check_private_key(private_key)
          raise ArgumentError, "tls: the key #{key} does not belong to the certificate #{certificate}"
        end

        context.add_certificate(first, private_key, between)
      rescue OpenSSL::SSL::SSLError => error # too small a key, for instance
        raise ArgumentError, "tls: the certificate #{certificate}: #{error.message}"
      end

      # Ruby 3.1's OpenSSL::X509::Certificate.load_file asks for no passphrase either: certificates have none.
      def certificates(path)
        found = read("certificate", path).scan(/-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----/m)
        raise ArgumentError, "tls: the certificate #{path} holds no PEM certificate" if found.empty?

        found.map { |pem| OpenSSL::X509::Certificate.new(pem) }
      rescue OpenSSL::X509::CertificateError => error
        raise ArgumentError, "tls: the certificate #{path} cannot be read: #{error.message}"
      end

      def private_key(path)
        # An empty passphrase: OpenSSL would ask for one on the terminal.
        OpenSSL::PKey.read(read("key", path), "")
      rescue OpenSSL::PKey::PKeyError => error
        raise ArgumentError, "tls: the key #{path} cannot be read: #{error.message}; it must be PEM without a passphrase"
      end

      def add_authorities(context, path)
        context.cert_store = store = OpenSSL::X509::Store.new
        if File.directory?(path)
          store.add_path(path)
        else
          read("ca", path)
          store.add_file(path)
          # Tells clients whose certificates are wanted.
          context.client_ca = certificates(path)
        end
      rescue OpenSSL::X509::StoreError => error
        raise ArgumentError, "tls: the ca #{path} cannot be read: #{error.message}"
      end

      def system_authorities
        OpenSSL::X509::Store.new.tap(&:set_default_paths)
      end

      def read(what, path)
        File.binread(path)
      rescue SystemCallError => error
        raise ArgumentError, "tls: the #{what} #{path}: #{error.message.sub(/ @ .*/, "")}"
      end
    end
  end
end
