# frozen_string_literal: true

# Finds the server for send, tail, status and reopen: by flags, environment and configuration.

require "gyre/cli/log"
require "gyre/cli/log/configuration"
require "gyre/log/viewer"

module Gyre
  module CLI
    module Log
      class Target
        CERTIFICATE_FLAGS = "--cert and --cert-key"
        PORT_0 = "port 0 stands for a free port, which the server prints when it starts: name that one with -p"

        def initialize
          @values = {}
          @tls = nil
        end

        def declare(flags)
          flags.separator "\nWhich server:"
          set(flags, :host, "-h", "--host HOST", "the host (127.0.0.1)")
          set(flags, :port, "-p", "--port PORT", "the port (6766)")
          set(flags, :bind, "-a", "--address ADDRESS", "instead of host and port: tcp://host:port or", "unix:///path")
          flags.on("-c", "--config FILE", "the server's configuration: host, port and key", "are taken from it") { |value| @path = value }
          set(flags, :key_file, "--key-file FILE", "the file that holds the key, if it is not in", "GYRE_LOG_KEY")
          flags.on("--tls [CA]", "with TLS; CA is a PEM file with the authorities", "that count, instead of the system's") do |value|
            @tls = (@tls || {}).merge({ ca: value }.compact)
          end
          flags.on("--cert FILE", "our own certificate, for a server that asks") { |value| @tls = (@tls || {}).merge(cert: value) }
          flags.on("--cert-key FILE", "its private key") { |value| @tls = (@tls || {}).merge(key: value) }
        end

        # Returns the server's first address to which a client can connect.
        def endpoint
          all = configuration.addresses.map { |address| Gyre::Log::Inlet.endpoint(nil, address) }
          found = all.find { |one| one.path || one.port.positive? } or raise StartError, PORT_0
          %w[* 0.0.0.0 ::].include?(found.host) ? found.with(host: "127.0.0.1") : found
        end

        def key
          configuration.key
        rescue Configuration::Invalid => error
          raise StartError, error.message
        end

        def viewer = Gyre::Log::Viewer.new(endpoint, key: key, tls: tls)

        def tls
          return unless @tls || configuration.values[:tls]

          TLS.client(**(@tls || {}))
        rescue ArgumentError => error
          raise StartError, error.message
        end

        # Returns a text with the failure and a remedy.
        def explain(error)
          case error
          when Errno::ECONNREFUSED, Errno::ENOENT
            "no server listens on #{endpoint}. Start a server there with `gyre log`, or name another with -h and -p"
          when Errno::ETIMEDOUT then "#{endpoint} does not answer#{"; if it needs TLS, add --tls" unless tls}"
          when Errno::ECONNRESET, Errno::EPIPE, EOFError then "#{endpoint} closed the connection; #{advice_when_closed}"
          when Gyre::Log::Denied then "#{endpoint} does not accept the key. Put it into GYRE_LOG_KEY, or name the file that holds it with --key-file"
          else "#{error.message}#{advice(error.message) if tls}"
          end
        end

        private

        # Guesses the reason. A server refuses a client after the TLS handshake, and the connection
        # may end before the client reads the alert.
        def advice_when_closed
          return "if it needs TLS, add --tls" unless tls

          return "if it needs a certificate, name yours with #{CERTIFICATE_FLAGS}" unless @tls&.key?(:cert)

          "perhaps it does not accept the authority that signed the certificate"
        end

        # Returns a remedy for a message of OpenSSL.
        def advice(words)
          case words
          when /certificate verify failed|hostname/ then ". Name the file with the authority that signed the server's certificate: --tls CA"
          when /alert/ then ". If it needs a certificate of an authority that it accepts, name yours with #{CERTIFICATE_FLAGS}"
          when /wrong version number/ then ". If it has no TLS, leave --tls away"
          end
        end

        def set(flags, key, *words) = flags.on(*words) { |value| @values[key] = Configuration::SETTINGS[key].check(value) }

        def configuration
          @configuration ||= begin
            twice = %i[host port].find { |name| @values.key?(name) && @values.key?(:bind) }
            raise UsageError, "--address excludes --#{twice}: it has both" if twice

            base = @path ? Configuration.load(@path, places: false) : Configuration.new
            base.with_environment.merge(@values)
          rescue Configuration::Invalid => error
            raise StartError, error.message
          end
        end
      end

      # A command that connects to a server. Subclasses define `own_flags`.
      class Asking < Command
        def initialize(**streams)
          super
          @target = Target.new
        end

        def flags
          Flags.new(self.class::BANNER) do |flags|
            @target.declare(flags)
            flags.separator "\nHow:"
            own_flags(flags)
          end
        end
      end
    end
  end
end
