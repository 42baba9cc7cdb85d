# frozen_string_literal: true

# TLS as settings: certificates and keys (files or PEM), authorities, protocols, host names in; a
# context for transports out. Servers and clients of every protocol take theirs here. What is wrong
# with a file is an ArgumentError that names it, before anything starts. libssl does the work
# (ext/gyre/net/tls.c); nothing asks for a passphrase.
require "gyre/errors"
require "gyre/loop"

module Gyre
  # TLS 1.2 and 1.3. Ciphers and the like are left to libssl, which the system's administrator
  # configures.
  module TLS
    # The peer broke TLS, or its certificate is not good.
    class Error < Gyre::Error; end

    # The peer's stream ended without TLS's end: it may have been cut (RFC 8446, section 6.1). A
    # protocol whose messages have their length may take it for an end.
    class Truncated < Error; end

    class << self
      # The context of a server.
      #
      # @param certificate [String] PEM, or the path of a file: the server's certificate, behind it
      #   those up to the root
      # @param key [String] PEM, or the path of a file, without a passphrase
      # @param names [Hash{String => Context}] other identities by host name; "*.example.org" stands
      #   for one label (SNI, RFC 6066). Only their certificates count; clients are verified as this
      #   context has it
      # @param alpn [Array<String>] protocols, the preferred one first (RFC 7301); a client that
      #   offers others only is refused
      # @param ca [String, nil] path of a PEM file or folder (as `openssl rehash` makes it) with the
      #   authorities of clients' certificates
      # @param verify [Boolean, :optional] whether clients must show a certificate; :optional takes
      #   those without one, too
      # @return [Context]
      # @raise [ArgumentError] names the file that is missing, unreadable or wrong
      # @raise [ExtensionRequired] where Gyre was built without libssl
      def server(certificate:, key:, names: {}, alpn: [], ca: nil, verify: !ca.nil?)
        raise ArgumentError, "tls: to verify clients, ca must name the authorities whose certificates are good" if verify && ca.nil?

        context = Context.new(true, certificate, key, ca, verify, alpn)
        names.each { |name, identity| context.send(:add_name, name, identity) }
        context
      end

      # The context of a client. It keeps the newest session of each of its last 64 servers, and
      # resumes it.
      #
      # @param ca [String, nil] path of a PEM file or folder; nil: the system's authorities
      # @param certificate [String, nil] the client's own, PEM or path
      # @param key [String, nil] of the certificate, PEM or path
      # @param alpn [Array<String>] as for {server}
      # @param verify [Boolean] whether the server's certificate must be good, and for the name that
      #   is connected to; false is for tests only
      # @return [Context]
      # @raise [ArgumentError] names the file that is missing, unreadable or wrong
      # @raise [ExtensionRequired] where Gyre was built without libssl
      def client(ca: nil, certificate: nil, key: nil, alpn: [], verify: true)
        raise ArgumentError, "tls: a certificate needs its key, and a key its certificate" if certificate.nil? != key.nil?

        Context.new(false, certificate, key, ca, verify, alpn)
      end

      # @api private
      # @param given [Object] what a caller was given as tls:
      # @param server [Boolean] the side that it is for
      # @return [Context, nil]
      # @raise [ArgumentError] for anything else
      def context(given, server:)
        return unless given
        return given if given.is_a?(Context) && given.server? == server

        got = given.is_a?(Context) ? given.inspect : given.class # settings may hold a private key
        raise ArgumentError, "tls: here it must be a context of Gyre::TLS.#{server ? "server" : "client"}, got #{got}"
      end
    end

    # What one side of connections needs. Made by {TLS.server} and {TLS.client}; may be used by many
    # transports, and by all threads.
    class Context
      VERIFY = { false => 0, :optional => 1, true => 2 }.freeze
      PEM = "-----BEGIN"
      private_constant :VERIFY, :PEM

      # The extension allocates a context, so it is loaded before, and not earlier: the portable
      # engine does without.
      # @api private
      def self.new(*)
        Loop.require_native("TLS")
        super
      end

      # @api private
      def initialize(server, certificate, key, authorities, verify, alpn)
        unless self.class.private_method_defined?(:build)
          raise ExtensionRequired, "TLS needs OpenSSL 3, which was missing when Gyre was built: install it (Debian: libssl-dev) and " \
                                   "reinstall the gem"
        end

        mode = VERIFY.fetch(verify) { raise ArgumentError, "tls: verify must be true, false or :optional, got #{verify.inspect}" }
        identity = [certificates(certificate), pem("key", key)]
        names = [certificate, key].map { |text| text unless text.nil? || text.include?(PEM) }
        folder = authorities && File.directory?(authorities)
        read("ca", authorities) if authorities && !folder # names the file, where libssl does not
        build(server, identity, names, folder ? [nil, authorities] : [authorities, nil], mode, protocols(alpn))
        @server = server
      end

      # @return [Boolean] whether it is of {TLS.server}
      def server? = @server

      # @return [String]
      def inspect = "#<#{self.class} of a #{@server ? "server" : "client"}>"

      private

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

      # As on the wire: a byte of length before each.
      def protocols(names)
        names.map do |name|
          raise ArgumentError, "tls: alpn: a protocol has 1 to 255 bytes, got #{name.inspect}" unless (1..255).cover?(name.bytesize)

          [name.bytesize].pack("C") << name.b
        end.join.b
      end
    end
  end
end
