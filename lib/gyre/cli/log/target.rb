# frozen_string_literal: true

# Which server the commands talk to that are no server themselves: from their flags, the environment and, if one is named, the
# server's configuration. Used by send, tail and status. It connects to nothing.

require "gyre/log/configuration"
require "gyre/log/errors"
require "gyre/cli/flags"

module Gyre
  module LogCommand
    # Host, port, key and TLS of a server.
    class Target
      CERTIFICATE_FLAGS = "--certificate and --certificate-key"
      PORT_0 = "port 0 stands for a free port, which the server prints when it starts: name that one with -p"
      # The flags of what the configuration calls otherwise.
      FLAGS = { bind: "address" }.freeze
      private_constant :CERTIFICATE_FLAGS, :PORT_0, :FLAGS

      # @return [Hash{Symbol => Object}] what the flags say
      attr_reader :values

      def initialize
        @values = {}
        @tls = nil
      end

      # Declares the flags.
      #
      # @param flags [OptionParser]
      # @return [void]
      def declare(flags)
        flags.separator "\nWhich server:"
        flags.on("-h", "--host HOST", "the host (127.0.0.1)") { |value| @values[:host] = value }
        flags.on("-p", "--port PORT", "the port (6766)") { |value| @values[:port] = value }
        flags.on("-a", "--address ADDRESS", "instead of host and port: tcp://host:port or", "unix:///path") do |value|
          @values[:bind] = value
        end
        flags.on("-c", "--config FILE", "the server's configuration: host, port and key", "are taken from it") { |value| @path = value }
        flags.on("--key-file FILE", "the file that holds the key, if it is not in", "GYRE_LOG_KEY") { |value| @values[:key_file] = value }
        flags.on("--tls [CA]", "with TLS; CA is a PEM file with the authorities", "that count, instead of the system's") do |value|
          @tls = (@tls || {}).merge({ ca: value }.compact)
        end
        flags.on("--certificate FILE", "our own certificate, for a server that asks") { |value| @tls = (@tls || {}).merge(certificate: value) }
        flags.on("--certificate-key FILE", "its private key") { |value| @tls = (@tls || {}).merge(key: value) }
      end

      # @return [Gyre::Endpoint] the first of the server's addresses that can be connected to
      # @raise [UsageError, StartError]
      def endpoint
        all = configuration.addresses.map { |address| Endpoint.parse(address, host: "127.0.0.1", port: Log::Configuration::DEFAULT_PORT) }
        found = all.find { |one| one.path || one.port.positive? } or raise StartError, PORT_0
        %w[* 0.0.0.0 ::].include?(found.host) ? found.with(host: "127.0.0.1") : found
      end

      # @return [String, nil]
      # @raise [StartError]
      def key
        configuration.key
      rescue Log::Configuration::Invalid => error
        raise StartError, error.message
      end

      # @return [TLS::Context, nil]
      # @raise [StartError]
      def tls
        return unless @tls || configuration.values[:tls]

        require "gyre/net"
        TLS::Context.client(**(@tls || {}))
      rescue ArgumentError => error
        raise StartError, error.message
      end

      # What happened, and what to do.
      #
      # @param error [Exception]
      # @return [String]
      def explain(error)
        case error
        when Errno::ECONNREFUSED, Errno::ENOENT
          "no server listens on #{endpoint}. Start a server there with `gyre log`, or name another with -h and -p"
        when Errno::ETIMEDOUT then "#{endpoint} does not answer#{"; if it wants TLS, add --tls" unless tls}"
        when Errno::ECONNRESET, Errno::EPIPE, EOFError then "#{endpoint} closed the connection; #{advice_when_closed}"
        when Log::Denied then "#{endpoint} does not accept the key. Put it into GYRE_LOG_KEY, or name the file that holds it with --key-file"
        else "#{error.message}#{advice(error.message) if tls}"
        end
      end

      private

      # A server that verifies its clients says so only after TLS's handshake, and the connection may be gone before that is read.
      def advice_when_closed
        return "if it wants TLS, add --tls" unless tls

        return "if it wants a certificate, name yours with #{CERTIFICATE_FLAGS}" unless @tls&.key?(:certificate)

        "perhaps it does not know the authority that signed the certificate"
      end

      # OpenSSL's words, and what to do about them.
      def advice(words)
        case words
        when /certificate verify failed|hostname/ then ". Name the file with the authority that signed the server's certificate: --tls CA"
        when /alert/ then ". If it wants a certificate that it knows, name yours with #{CERTIFICATE_FLAGS}"
        when /wrong version number/ then ". If it has no TLS, leave --tls away"
        end
      end

      def configuration
        @configuration ||= begin
          base = @path ? Log::Configuration.load(@path, places: false) : Log::Configuration.new
          key = ENV["GYRE_LOG_KEY"].to_s
          base = base.merge(key: key) unless key.empty?
          base.merge(checked)
        rescue Log::Configuration::Invalid => error
          raise StartError, error.message
        end
      end

      def checked
        twice = %i[host port].find { |name| @values.key?(name) && @values.key?(:bind) }
        raise UsageError, "--address cannot stand beside --#{twice}: it has both" if twice

        @values.to_h do |name, value|
          [name, Log::Configuration.check(name, value)]
        rescue ArgumentError => error
          raise UsageError, "--#{FLAGS.fetch(name, name).to_s.tr("_", "-")}: #{error.message}"
        end
      end
    end
  end
end
