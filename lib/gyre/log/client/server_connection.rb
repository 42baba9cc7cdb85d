# frozen_string_literal: true

# One connection of a log client to its server: connects, authenticates, writes what the socket takes and reads replies. Opened in
# a thread of its own by Gyre::Log::Sender, which then alone uses it. Nothing here waits after it was opened.

require "gyre/clock"
require "gyre/errors"
require "gyre/log/errors"
require "openssl"
require "socket"

module Gyre
  module Log
    # A socket that was accepted by the server.
    class ServerConnection
      # What a broken connection raises.
      TLS_ERROR = OpenSSL::SSL::SSLError
      ERRORS = [SystemCallError, SocketError, IOError, TLS_ERROR].freeze
      READ_BYTES = 16_384
      LINE_BYTES_LIMIT = 4096
      # What a server says to an id with a wrong secret, or none.
      TAKEN = "error: the client id is another client's\n"
      private_constant :READ_BYTES, :LINE_BYTES_LIMIT, :TAKEN

      class << self
        # Connects and authenticates.
        #
        # @param address [Address] where, with which id
        # @param identity [Identity, nil] nil for the old wire
        # @param old [Boolean] whether a server is good that knows the old one only
        # @param adopted [Boolean] whether the records are another process's
        # @return [ServerConnection]
        # @raise [Denied, Incompatible, ProtocolError, SystemCallError, SocketError, IOError, OpenSSL::SSL::SSLError]
        def open(address, identity, old: identity.nil?, adopted: false)
          deadline = Clock.now + address.connect_timeout
          socket = address.endpoint.connect(address.connect_timeout)
          link = new(address.tls ? secure(socket, address, deadline) : socket, address)
          link.authenticate(identity, old, deadline, adopted: adopted)
          opened = link
        ensure # also when the thread is killed
          socket&.close unless opened
        end

        # Waits for a socket.
        # @raise [Errno::ETIMEDOUT]
        def wait(socket, what, deadline)
          left = deadline - Clock.now
          ready = left.positive? && (what == :wait_readable ? socket.wait_readable(left) : socket.wait_writable(left))
          raise Errno::ETIMEDOUT, "no answer in time" unless ready
        end

        private

        def secure(socket, address, deadline)
          tls = OpenSSL::SSL::SSLSocket.new(socket, address.tls)
          tls.sync_close = true
          tls.hostname = address.host if address.host # also when it is an IP address: the certificate is checked for it
          while (wanted = tls.connect_nonblock(exception: false)).is_a?(Symbol)
            wait(socket, wanted, deadline)
          end
          tls.post_connection_check(address.host) if address.host && address.tls.verify_mode != OpenSSL::SSL::VERIFY_NONE
          tls
        end
      end

      def initialize(socket, address)
        @socket = socket
        @address = address
        @lines = String.new(encoding: Encoding::BINARY)
        @acknowledges = false
      end

      # @return [Boolean] whether the server acknowledges; otherwise it wants frames
      def acknowledges?
        @acknowledges
      end

      # @return [Socket] to wait for
      def to_io
        @socket.to_io
      end

      # @param bytes [String]
      # @return [Integer, nil] how many were taken; nil: none at the moment
      # @raise [SystemCallError, IOError, OpenSSL::SSL::SSLError] the connection is gone
      def write(bytes)
        count = @socket.write_nonblock(bytes, exception: false)
        count if count.is_a?(Integer)
      end

      # Reads what has come.
      # @return [Integer, nil] the last number that was acknowledged; nil: nothing new
      # @raise [EOFError, SystemCallError, ProtocolError] the connection is gone, or the server said why it ends it
      def acknowledged
        number = nil
        fill
        while (line = @lines.slice!(/\A[^\n]*\n/n))
          case line
          when /\Aack (\d+)\n\z/n then number = Regexp.last_match(1).to_i
          else raise ProtocolError, "#{@address} says #{line.chomp.inspect}"
          end
        end
        raise ProtocolError, "#{@address} sends what is no reply" if @lines.bytesize > LINE_BYTES_LIMIT
        raise EOFError, "#{@address} closed the connection" if @ended

        number
      end

      # Sends the first frame and waits for its answer.
      # @param identity [Identity, nil]
      # @param old [Boolean]
      # @param deadline [Float]
      # @return [void]
      def authenticate(identity, old, deadline, adopted: false)
        frame = @address.authentication(identity, adopted: adopted)
        until frame.empty?
          count = @socket.write_nonblock(frame, exception: false)
          count.is_a?(Symbol) ? ServerConnection.wait(to_io, count, deadline) : frame = frame.byteslice(count..)
        end
        until @lines.include?("\n") || @ended
          wanted = fill
          ServerConnection.wait(to_io, wanted, deadline) if wanted && !@lines.include?("\n")
        end
        check(@lines.slice!(/\A[^\n]*\n/n), identity, old)
      end

      # @return [void]
      def close
        @socket.close
      rescue SystemCallError, IOError
        nil # it is gone already
      end

      # In a forked child: lets go of the parent's socket and sends the server nothing.
      # @return [void]
      def abandon
        to_io.close
      rescue IOError
        nil # it is closed
      end

      private

      # Reads until nothing more is there.
      # @return [Symbol, nil] what to wait for; nil at the end
      def fill
        until @ended || @lines.bytesize > LINE_BYTES_LIMIT
          case bytes = @socket.read_nonblock(READ_BYTES, exception: false)
          when String then @lines << bytes
          when Symbol then return bytes
          else @ended = true
          end
        end
      end

      def check(line, identity, old)
        case line
        when "accepted 2\n"
          raise ProtocolError, "#{@address} answers what was not asked" unless identity

          @acknowledges = true
        when "accepted\n" then raise Incompatible, old_server unless old
        when "denied\n" then raise Denied, "#{@address} refuses the key of service #{@address.service.inspect}"
        when nil then raise EOFError, "#{@address} closed the connection without an answer"
        when TAKEN then raise IdentityTaken, "#{@address} takes this client's id for another client's"
        else raise ProtocolError, "#{@address} says #{line.chomp.inspect}"
        end
      end

      def old_server
        "#{@address} does not know acknowledged logging; `acknowledged: false` logs to it over the old protocol"
      end
    end
  end
end
