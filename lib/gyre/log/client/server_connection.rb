# frozen_string_literal: true

# One connection of a log client to its server: authenticates, writes what the socket takes and
# reads replies. Opened in a thread of its own by Gyre::Log::Dialer; Gyre::Log::Transmission then
# alone uses it. Nothing here waits after it was opened.

require "gyre/clock"
require "gyre/log/errors"
require "gyre/net"

module Gyre
  module Log
    # A transport that was accepted by the server.
    class ServerConnection
      # What a broken connection raises.
      ERRORS = [SystemCallError, SocketError, IOError, TLS::Error].freeze
      LINE_BYTES_LIMIT = 4096
      # The reply to an id with a wrong secret, or none.
      TAKEN = "error: the client id is another client's"
      private_constant :LINE_BYTES_LIMIT, :TAKEN

      # Connects and authenticates.
      #
      # @param address [Address] where, with which id
      # @param identity [Identity, nil] nil for the old wire
      # @param old [Boolean] whether a server is good that has the old one only
      # @param adopted [Boolean] whether the records are another process's
      # @return [ServerConnection]
      # @raise [Denied, Incompatible, ProtocolError, SystemCallError, SocketError, IOError,
      #   TLS::Error]
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
      ensure # also when the thread is killed
        transport&.abandon unless opened
      end

      # @param reply [String, nil] the server's, to the first frame; nil: it closed the connection
      # @raise [Denied, Incompatible, ProtocolError, EOFError]
      def initialize(transport, address, reply, identity, old)
        @transport = transport
        @address = address
        @lines = String.new(encoding: Encoding::BINARY)
        @acknowledges = reply == "accepted 2"
        check(reply, identity, old)
      end

      # @return [Boolean] whether the server acknowledges; otherwise it expects frames
      def acknowledges? = @acknowledges

      # @return [Socket] to wait for
      def to_io = @transport.to_io

      # @return [Hash{Symbol => Boolean}] read:, write:: what to wait for
      def wants = @transport.wants || {}

      # Takes bytes to be sent by {#flush}.
      # @param bytes [String]
      def queue(bytes) = @transport.queue(bytes)

      # Sends what the socket takes.
      # @return [Integer] bytes that it has not taken
      # @raise [SystemCallError, IOError, TLS::Error] the connection is gone
      def flush
        @transport.flush_available
        @transport.unsent_bytes
      end

      # @return [Integer] bytes that the socket has not taken
      def unsent_bytes = @transport.unsent_bytes

      # Reads what has come.
      # @return [Integer, nil] the last number that was acknowledged; nil: nothing new
      # @raise [IOError, SystemCallError, ProtocolError] the connection is gone, or the server's
      #   reason to end it
      def acknowledged
        number = nil
        while (bytes = @transport.read_available).is_a?(String)
          @lines << bytes
          while (line = @lines.slice!(/\A[^\n]*\n/n))
            number = line[/\Aack (\d+)\n\z/n, 1]&.to_i or raise ProtocolError, "#{@address} answered #{line.chomp.inspect}"
          end
          raise ProtocolError, "#{@address} sent what is not a reply" if @lines.bytesize > LINE_BYTES_LIMIT
        end
        bytes ? number : raise(EOFError, "#{@address} closed the connection")
      rescue TLS::Truncated
        raise EOFError, "#{@address} closed the connection"
      end

      # What was not sent is not sent any more.
      def close
        @transport.finish_available if @transport.unsent_bytes.zero?
      rescue *ERRORS
        nil # it is gone already
      ensure
        @transport.abandon
      end

      # In a forked child: closes its copy of the parent's socket and sends the server nothing.
      def abandon = @transport.abandon

      private

      def check(reply, identity, old)
        case reply
        when "accepted 2" then raise ProtocolError, "#{@address} answered what was not asked" unless identity
        when "accepted" then raise Incompatible, old_server unless old
        when "denied" then raise Denied, "#{@address} refuses the key of service #{@address.service.inspect}"
        when nil then raise EOFError, "#{@address} closed the connection without an answer"
        when TAKEN then raise IdentityTaken, "#{@address} treats this client's id as another client's"
        else raise ProtocolError, "#{@address} answered #{reply.inspect}"
        end
      end

      def old_server
        "#{@address} does not support acknowledged logging; use `acknowledged: false` for the old protocol"
      end
    end
  end
end
