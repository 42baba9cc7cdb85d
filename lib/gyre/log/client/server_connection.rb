# frozen_string_literal: true

# A log client's connection: authenticates, writes as much as the socket takes, reads replies.
# Opened by Gyre::Log::Dialer in a thread, then used by Gyre::Log::Transmission. Never waits after
# opening.

require "gyre/log/errors"
require "gyre/net"

module Gyre
  module Log
    class ServerConnection
      ERRORS = [SystemCallError, SocketError, IOError, TLS::Error].freeze
      LINE_BYTES_LIMIT = 4096
      # The server's reply to a wrong secret.
      TAKEN = "error: the client id is another client's"

      # Connects and authenticates. If `identity` is nil, uses Analogger's protocol. `old` permits a
      # server without acknowledgements.
      def self.open(address, identity, old: identity.nil?, adopted: false)
        deadline = Clock.now + address.connect_timeout
        transport = Gyre.connect(address.endpoint, tls: address.tls, timeout_s: address.connect_timeout)
        transport.read_timeout_s = transport.write_timeout_s = [deadline - Clock.now, 0].max
        transport.write(address.authentication(identity, adopted: adopted))
        opened = new(transport, address, transport.read_until("\n", limit: LINE_BYTES_LIMIT), identity, old)
      rescue TimeoutError
        raise Errno::ETIMEDOUT, "no answer in time"
      rescue TLS::Truncated => error
        raise EOFError, error.message
      ensure # also if the thread is killed
        transport&.abandon unless opened
      end

      # `reply` is nil if the server closed the connection.
      def initialize(transport, address, reply, identity, old)
        @transport = transport
        @address = address
        @lines = String.new(encoding: Encoding::BINARY)
        @acknowledges = reply == "accepted 2"
        check(reply, identity, old)
      end

      def acknowledges? = @acknowledges

      def to_io = @transport.to_io

      # Returns the events to wait for, as a Hash of read: and write:.
      def wants = @transport.wants || {}

      def queue(bytes) = @transport.queue(bytes)

      # Sends as many bytes as the socket takes. Returns the number of unsent bytes.
      def flush
        @transport.flush_available
        @transport.unsent_bytes
      end

      def unsent_bytes = @transport.unsent_bytes

      # Yields the last acknowledged number, if any arrived, even before it raises for an end of the
      # connection behind that.
      def acknowledged
        number = nil
        while (bytes = @transport.read_available).is_a?(String)
          @lines << bytes
          while (line = @lines.slice!(/\A[^\n]*\n/n))
            number = line[/\Aack (\d+)\n\z/n, 1]&.to_i or raise ProtocolError, "#{@address} answered #{line.chomp.inspect}"
          end
          raise ProtocolError, "#{@address} sent an invalid reply" if @lines.bytesize > LINE_BYTES_LIMIT
        end
        raise EOFError, "#{@address} closed the connection" unless bytes
      rescue TLS::Truncated
        raise EOFError, "#{@address} closed the connection"
      ensure
        yield number if number
      end

      def close
        @transport.finish_available if @transport.unsent_bytes.zero?
      rescue *ERRORS
        nil # closed already
      ensure
        @transport.abandon
      end

      def abandon = @transport.abandon

      private

      def check(reply, identity, old)
        case reply
        when "accepted 2" then raise ProtocolError, "#{@address} sent an unexpected reply" unless identity
        when "accepted" then raise Incompatible, old_server unless old
        when "denied" then raise Denied, "#{@address} refuses the key of service #{@address.service.inspect}"
        when nil then raise EOFError, "#{@address} closed the connection without an answer"
        when TAKEN then raise IdentityTaken, "#{@address} treats this client's id as another client's"
        else raise ProtocolError, "#{@address} answered #{reply.inspect}"
        end
      end

      def old_server = "#{@address} does not support acknowledged logging; use `acknowledged: false` for the old protocol"
    end
  end
end
