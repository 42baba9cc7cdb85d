# frozen_string_literal: true

# TLS by options: certificates and keys (files or PEM), authorities, protocols, host names in; a
# context for transports out. Used by the servers and clients of every protocol. A faulty file
# raises an ArgumentError that names it, before anything starts. libssl does the work
# (ext/gyre/net/tls*.c); nothing asks for a passphrase.
require "gyre/errors"
require "gyre/loop"

module Gyre
  # TLS 1.2 and 1.3. Servers use the ciphers and groups of Mozilla's intermediate configuration
  # (without DHE), within the system's level of security; clients use libssl's.
  module TLS
    # The peer broke TLS, or its certificate is invalid.
    class Error < Gyre::Error; end

    # The peer's stream ended without TLS's end, so it may be truncated (RFC 8446, section 6.1). A
    # protocol whose messages have a length may take it for an end.
    class Truncated < Error; end

    class << self
      # @return [Boolean] whether the extension is there, and was built with libssl
      def available? = Loop.native? && Context.private_method_defined?(:build)

      # The context of a server.
      #
      # @param cert [String] PEM, or the path of a file: the server's certificate, then those up to
      #   the root
      # @param key [String] PEM, or the path of a file
      # @param key_passphrase [String, nil] of an encrypted key
      # @param names [Hash{String => Context}] other identities by host name; "*.example.org" stands
      #   for one label (SNI, RFC 6066). Only their certificates count; this
      #   context decides about clients
      # @param alpn [Array<String>] protocols, the preferred one first (RFC 7301); a client that
      #   offers only others is refused
      # @param ca [String, nil] path of a PEM file or folder (as `openssl rehash` makes it) with the
      #   authorities of clients' certificates
      # @param verify [Boolean, :optional] whether clients must show a certificate; :optional takes
      #   those without one, too
      # @param crl [String, nil] PEM, or the path of a file: a revocation list of each authority; a
      #   certificate without a list of its authority is refused
      # @param ciphers [String, nil] of TLS 1.2, as openssl-ciphers(1) writes them
      # @param ciphersuites [String, nil] of TLS 1.3
      # @param min_version [String] "1.2" or "1.3"
      # @param ticket_keys [TicketKeys, nil] those of other contexts and processes, so that sessions
      #   resume at any of them; nil: this context has its own keys
      # @return [Context]
      # @raise [ArgumentError] names the file that is missing, unreadable or wrong
      # @raise [ExtensionRequired] where Gyre was built without libssl
      def server(cert:, key:, names: {}, ca: nil, crl: nil, verify: !ca.nil?, **options)
        raise ArgumentError, "tls: to verify clients, ca must name the authorities whose certificates are good" if verify && ca.nil?
        raise ArgumentError, "tls: crl is for certificates of clients, and verify is false" if crl && !verify

        Context.new(server: true, cert: cert, key: key, ca: ca, crl: crl, verify: verify, **options, names: names)
      end

      # The context of a client. Keeps the newest session of each of its last 64 servers, and
      # resumes it.
      #
      # @param ca [String, nil] path of a PEM file or folder; nil: the system's authorities
      # @param cert [String, nil] the client's own certificate, PEM or path
      # @param key [String, nil] of the certificate, PEM or path
      # @param alpn [Array<String>] as for {server}
      # @param verify [Boolean] whether the server's certificate must be good, and for the name that
      #   is connected to; false is for tests only
      # @return [Context]
      # @raise [ArgumentError] names the file that is missing, unreadable or wrong
      # @raise [ExtensionRequired] where Gyre was built without libssl
      def client(ca: nil, cert: nil, key: nil, alpn: [], verify: true)
        raise ArgumentError, "tls: a cert needs its key, and a key its cert" if cert.nil? != key.nil?

        Context.new(server: false, cert: cert, key: key, ca: ca, verify: verify, alpn: alpn)
      end

      # @return [Context] the client that `tls: true` stands for, one of each Ractor: to read the
      #   system's authorities takes some 20 ms, and sessions resume within a context. It keeps
      #   the authorities that it has read
      # @raise [ExtensionRequired] where Gyre was built without libssl
      def shared_client = Ractor.current[:gyre_tls_client] ||= client

      # @api private
      # @param given [Object] what a caller was given as tls:
      # @param server [Boolean] the side that it is for
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

    # The TLS settings and keys of one side. Made by {TLS.server} and {TLS.client}; many transports,
    # in any thread, may share it.
    class Context
      VERIFY = { false => 0, :optional => 1, true => 2 }.freeze
      PEM = "-----BEGIN"
      # Not a path: several lines, or DER in base64.
      KEY_TEXT = %r{\n|\AM[A-Za-z0-9+/]{40,}=*\z}.freeze
      private_constant :VERIFY, :PEM, :KEY_TEXT

      # Loads the extension only here, as the portable engine works without it.
      # @api private
      def self.new(*, **)
        Loop.require_native("TLS")
        super
      end

      # @api private
      def initialize(server:, cert:, key:, ca:, verify:, names: {}, crl: nil, alpn: [], key_passphrase: nil, ciphers: nil, ciphersuites: nil,
                     min_version: "1.2", ticket_keys: nil, particulars: {})
        unless self.class.private_method_defined?(:build)
          raise ExtensionRequired, "TLS needs OpenSSL 3, which was missing when Gyre was built: install it (Debian: libssl-dev) and " \
                                   "reinstall the gem"
        end

        raise ArgumentError, "tls: min_version must be 1.2 or 1.3, got #{min_version.inspect}" unless %w[1.2 1.3].include?(min_version)
        raise ArgumentError, "tls: a server needs a certificate and its key" if server && (cert.nil? || key.nil?)

        names.each_value { |identity| TLS.context(identity, server: true) }

        @server = server
        @verifies = verify ? true : false
        @certificate_name = name_of(cert)
        @names = names.dup.freeze
        build({ server: server, certificate: certificates(cert), key: pem("key", key), key_passphrase: key_passphrase,
                certificate_name: @certificate_name, key_name: name_of(key), **authorities(ca), crl: pem("crl", crl), crl_name: name_of(crl),
                verify: mode(verify), ciphers: ciphers, suites: ciphersuites, only_1_3: min_version == "1.3", tickets: ticket_keys,
                alpn: protocols(alpn), oldest: 0, newest: 0, groups: nil, dh_parameters: nil, **particulars })
        names.each { |name, identity| add_name(name, identity) }
      end

      # @return [Hash{String => Context}] other identities of a server, by host name
      attr_reader :names

      # @return [String] what messages call its certificate
      def name = "the certificate#{" #{@certificate_name}" if @certificate_name}"

      # @return [Time, nil] from when on the certificate is good
      def not_before = time(0)

      # @return [Time, nil] until when the certificate is good
      def not_after = time(1)

      # @return [Boolean] whether it asks its peers for their certificates
      def verifies? = @verifies

      # @return [Boolean] whether it is of {TLS.server}
      def server? = @server

      # @return [String]
      def inspect = "#<#{self.class} of a #{@server ? "server" : "client"}>"

      private

      def time(index)
        seconds = times&.fetch(index)
        Time.at(seconds) unless seconds.nil? || seconds.zero?
      end

      # Hides text that is the key itself, even if its PEM is broken.
      def name_of(text) = (text unless text.nil? || text.include?(PEM) || text.b.match?(KEY_TEXT))

      def mode(verify)
        VERIFY.fetch(verify) { raise ArgumentError, "tls: verify must be true, false or :optional, got #{verify.inspect}" }
      end

      # Reads the file first, for a message with its name, which libssl's lacks.
      def authorities(path)
        return {} unless path

        File.directory?(path) ? { ca_folder: path, authorities: path } : { ca_file: path, authorities: read("ca", path).delete("\0") }
      end

      def certificates(text)
        pem = pem("certificate", text)
        return pem if pem.nil? || pem.match?(/^-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/)

        raise ArgumentError, "tls: the certificate #{"#{name_of(text)} " if name_of(text)}holds no PEM certificate"
      end

      # DER has bytes that PEM never has.
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

      # Encodes names for the wire, each after a byte with its length.
      def protocols(names)
        names.map do |name|
          raise ArgumentError, "tls: alpn: a protocol has 1 to 255 bytes, got #{name.inspect}" unless (1..255).cover?(name.bytesize)

          [name.bytesize].pack("C") << name.b
        end.join.b
      end
    end

    # Keys that encrypt session tickets (RFC 8446, section 4.6.1). Has a new key each interval; the
    # two before it still decrypt. Processes with the same keys resume each other's sessions, and
    # compute the same later keys: one hand-over of a state suffices. Past keys cannot be computed
    # from it.
    class TicketKeys
      INTERVAL_S = 2 * 3600 # what libssl gives a session
      # The variable of the environment with the number of the keys' descriptor, and the pipe's
      # inode number: see {#hand_over}.
      VARIABLE = "GYRE_TLS_TICKET_KEYS_FD"
      PIPE_BYTES = 4096
      private_constant :PIPE_BYTES

      class << self
        # The extension allocates them.
        # @api private
        def new(*, **)
          Loop.require_native("TLS")
          raise ExtensionRequired, "TLS needs OpenSSL 3, which was missing when Gyre was built" unless private_method_defined?(:build)

          super
        end

        # @return [TicketKeys] those of this process and of the children that it forks; the ones
        #   handed over to this process, if any
        # @raise [ExtensionRequired]
        def shared
          @shared ||= taken_over || new
        end

        # @param saved [String] what {#save} returned, in another process
        # @return [TicketKeys]
        # @raise [ArgumentError] it is something else
        def load(saved) = new(saved: saved)

        # @api private
        # @param pipe [IO]
        # @return [String] distinguishes it from every other one
        def identity(pipe) = pipe.stat.then { |stat| "#{stat.dev}-#{stat.ino}" }

        private

        # Checks that the descriptor still is the keys' pipe, as another file may have its number by
        # now. Never waits, as all bytes are there.
        def taken_over
          number, identity = ENV.delete(VARIABLE)&.split("/")
          reader = IO.for_fd(Integer(number, 10), autoclose: false) if number
          return unless reader && identity(reader) == identity

          saved = reader.read_nonblock(PIPE_BYTES)
          reader.close
          load(saved)
        rescue ArgumentError, SystemCallError, IOError
          nil # another process' descriptor, or nothing: then sessions are not resumed once
        end
      end

      # @param interval_s [Integer] how long a key encrypts
      # @param saved [String, nil] what {#save} returned
      # @raise [ArgumentError]
      def initialize(interval_s: INTERVAL_S, saved: nil)
        raise ArgumentError, "tls: interval_s must be 1 or more" unless interval_s.is_a?(Integer) && interval_s.positive?

        build(saved || interval_s)
      end

      # For a program that this process is about to start or to become:
      #
      #   environment, reader = keys.hand_over
      #   Process.spawn(environment, *command, reader => reader)
      #
      # The keys go through a pipe, for an environment can be read by others.
      #
      # @return [Array(Hash{String => String}, IO)] what the program needs in its environment, and
      #   the descriptor, which the program needs under the same number; the caller closes it
      def hand_over
        reader, writer = IO.pipe
        writer.write(save)
        [{ VARIABLE => "#{reader.fileno}/#{TicketKeys.identity(reader)}" }, reader]
      ensure
        writer&.close
      end

      # @return [String]
      def inspect = "#<#{self.class}>"
    end
  end
end
