# frozen_string_literal: true

# Looks at a log server: its status, and its lines as they come. Used by `gyre log status` and `gyre log tail`, and by pages that
# show the log. Each call is a connection of its own; under a scheduler only the calling fiber waits. It logs nothing.

require "io/wait"
require "json"
require "socket"
require "gyre/net/endpoint"
require "gyre/errors"
require "gyre/log/errors"
require "gyre/log/wire"

module Gyre
  module Log
    # One server, as its viewers see it.
    #
    #   viewer = Gyre::Log::Viewer.new("127.0.0.1:6766")
    #   viewer.status["messages"] # => 1234
    #   viewer.each_line("web") { |line| puts line }
    class Viewer
      DEFAULT_PORT = 6766
      READ_BYTES = 65_536
      # More than any line; a status names a thousand clients.
      LINE_BYTES_LIMIT = 16 * 1024 * 1024
      private_constant :READ_BYTES, :LINE_BYTES_LIMIT

      # @return [Gyre::Endpoint]
      attr_reader :endpoint

      # @param address [String, Integer, Gyre::Endpoint] host:port, a port, unix:///path
      # @param key [String, nil]
      # @param tls [OpenSSL::SSL::SSLContext, nil] as Gyre::TLS.client makes it
      # @param timeout_s [Numeric] to connect, and for each answer
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
        open("", "status") do |socket, bytes|
          line = read_line(socket, bytes) || raise(EOFError, "#{self} closed the connection without an answer")
          JSON.parse(line.force_encoding(Encoding::UTF_8))
        end
      rescue JSON::ParserError
        raise ProtocolError, "#{self} answered what is no status"
      end

      # Has the server write and sync all that it has and reopen its files. Returns when that is done: the former files, renamed, may
      # be compressed then.
      #
      # @param within_s [Numeric]
      # @return [void]
      # @raise [ProtocolError] the server still writes to one of the former files
      # @raise (see #status)
      def reopen(within_s: 60)
        open("", "reopen", within_s) do |socket, bytes|
          line = read_line(socket, bytes, within_s) || raise(EOFError, "#{self} closed the connection without an answer")
          raise ProtocolError, "#{self} says #{line.chomp.inspect}" unless line == "reopened\n"
        end
      end

      # Follows the log until the server ends, or the block breaks.
      #
      # @param service [String, nil] nil: every service
      # @param connected [#call, nil] called once the server has let us in
      # @yieldparam line [String] binary, without its line end
      # @return [void]
      # @raise (see #status)
      def each_line(service = nil, connected: nil)
        open(service.to_s, "tail") do |socket, bytes|
          connected&.call
          loop do
            while (line = bytes.slice!(/\A[^\n]*\n/n))
              yield line.chomp
            end
            break unless more(socket, bytes, nil)
          end
        end
      end

      # @return [String]
      def to_s
        "the log server at #{endpoint.to_s.delete_prefix("tcp://")}"
      end

      # @return [String] without the key
      def inspect
        "#<#{self.class} #{endpoint}>"
      end

      private

      def open(service, wish, within_s = @timeout_s)
        socket = connect
        socket.write(Wire.frame(service, "authentication/2 #{wish}", @key))
        bytes = "".b
        check(read_line(socket, bytes, within_s))
        yield socket, bytes
      rescue *secure_errors => error
        raise ProtocolError, "#{self}: TLS: #{error.message}"
      ensure
        socket&.close
      end

      # Without TLS its library need not be loaded.
      def secure_errors
        @tls ? [OpenSSL::SSL::SSLError] : []
      end

      def connect
        socket = endpoint.connect(@timeout_s)
        return socket unless @tls

        tls = OpenSSL::SSL::SSLSocket.new(socket, @tls)
        tls.sync_close = true
        tls.hostname = endpoint.host if endpoint.host
        while (wanted = tls.connect_nonblock(exception: false)).is_a?(Symbol)
          wait(wanted == :wait_readable ? socket.wait_readable(@timeout_s) : socket.wait_writable(@timeout_s))
        end
        tls
      rescue StandardError
        socket&.close
        raise
      end

      # @return [String, nil] nil at the end
      def read_line(socket, bytes, within_s = @timeout_s)
        until (line = bytes.slice!(/\A[^\n]*\n/n))
          return unless more(socket, bytes, within_s)
        end
        line
      end

      # @return [Boolean] whether there was more
      def more(socket, bytes, timeout_s)
        raise ProtocolError, "#{self} sends a line without end" if bytes.bytesize > LINE_BYTES_LIMIT

        case got = socket.read_nonblock(READ_BYTES, exception: false)
        when String then bytes << got
        when :wait_readable then wait(socket.to_io.wait_readable(timeout_s))
        when :wait_writable then wait(socket.to_io.wait_writable(timeout_s))
        else return false
        end
        true
      rescue EOFError
        false
      end

      def wait(ready)
        ready || raise(Errno::ETIMEDOUT, "#{self} does not answer")
      end

      def check(answer)
        case answer
        when "accepted 2\n" then nil
        when "accepted\n" then raise Incompatible, "#{self} is one of Analogger's: it can be logged to, but not looked at"
        when "denied\n" then raise Denied, "#{self} does not accept the key"
        when nil then raise EOFError, "#{self} closed the connection without an answer"
        else raise ProtocolError, "#{self} says #{answer.chomp.inspect}"
        end
      end
    end
  end
end
