# frozen_string_literal: true

# Reads a log server's status and follows its lines, for `gyre log status`, `gyre log tail` and web
# pages. Each call opens its own connection. If there is a scheduler, only the calling fiber waits.

require "json"
require "gyre/net"
require "gyre/log/errors"
require "gyre/log/wire"

module Gyre
  module Log
    # A viewer of one server.
    #
    #   viewer = Gyre::Log::Viewer.new("127.0.0.1:6766")
    #   viewer.status["messages"] # => 1234
    #   viewer.each_line("web") { |line| puts line }
    class Viewer
      # Default port of a log server.
      DEFAULT_PORT = 6766
      # Maximum bytes of a line or status that the server sends.
      LINE_BYTES_LIMIT = 16 * 1024 * 1024
      private_constant :LINE_BYTES_LIMIT

      # @return [Gyre::Endpoint]
      attr_reader :endpoint

      # @param address [String, Integer, Gyre::Endpoint] host:port, a port, unix:///path
      # @param key [String, nil]
      # @param tls [TLS::Context, nil]
      # @param timeout_s [Numeric] for the connection, and for each response
      # @raise [ArgumentError]
      def initialize(address, key: nil, tls: nil, timeout_s: 5)
        @endpoint = Endpoint.parse(address, host: "127.0.0.1", port: DEFAULT_PORT)
        @key = key.to_s
        @tls = tls
        @timeout_s = timeout_s
      end

      # @return [Hash{String => Object}] the server's figures
      # @raise [Denied, Incompatible, ProtocolError, SystemCallError, SocketError, EOFError]
      def status
        open("", "status") { |transport| JSON.parse(answer(transport).force_encoding(Encoding::UTF_8)) }
      rescue JSON::ParserError
        raise ProtocolError, "#{self} sent an invalid status"
      end

      # Makes the server write, sync and reopen its files. Renamed files may then be compressed.
      # @param within_s [Numeric]
      # @return [void]
      # @raise [ProtocolError] the server still writes to one of the former files
      # @raise (see #status)
      def reopen(within_s: 60)
        open("", "reopen", within_s) do |transport|
          line = answer(transport)
          raise ProtocolError, "#{self} answered #{line.inspect}" unless line == "reopened"
        end
      end

      # Yields new lines of the log until the server ends or the block breaks.
      # @param service [String, nil] nil: every service
      # @param connected [#call, nil] called once the server has accepted the connection
      # @yieldparam line [String] binary, without its line end
      # @return [void]
      # @raise (see #status)
      def each_line(service = nil, connected: nil)
        open(service.to_s, "tail") do |transport|
          connected&.call
          transport.read_timeout_s = nil
          while (line = read_line(transport))
            yield line.delete_suffix("\r")
          end
        end
      end

      # @return [String]
      def to_s = "the log server at #{endpoint.to_s.delete_prefix("tcp://")}"

      # @return [String] without the key
      def inspect = "#<#{self.class} #{endpoint}>"

      private

      def open(service, request, within_s = @timeout_s)
        transport = reading { Gyre.connect(endpoint, tls: @tls, timeout_s: @timeout_s) }
        transport.read_timeout_s = transport.write_timeout_s = within_s
        reading { transport.write(Wire.frame(service, "authentication/2 #{request}", @key)) }
        check(answer(transport))
        yield transport
      ensure
        transport&.close
      end

      # @return [String, nil] nil at the end of the stream
      def read_line(transport) = reading { transport.read_until("\n", limit: LINE_BYTES_LIMIT) }

      def answer(transport) = read_line(transport) || raise(EOFError, "#{self} closed the connection without an answer")

      def reading
        yield
      rescue TLS::Truncated => error
        raise EOFError, error.message
      rescue TLS::Error => error
        raise ProtocolError, error.message
      rescue TimeoutError => error
        raise if error.deadline

        raise Errno::ETIMEDOUT, "#{self} does not answer"
      end

      def check(answer)
        case answer
        when "accepted 2" then nil
        when "accepted" then raise Incompatible, "#{self} is one of Analogger's: it can be logged to, but not looked at"
        when "denied" then raise Denied, "#{self} does not accept the key"
        else raise ProtocolError, "#{self} answered #{answer.inspect}"
        end
      end
    end
  end
end
