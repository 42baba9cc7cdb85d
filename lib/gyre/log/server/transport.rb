# frozen_string_literal: true

# A connected socket as the log server's one fiber needs it: every call returns at once, and plain TCP, Unix sockets and TLS look
# alike. Gyre::Log::Connection owns one. It knows no protocol and keeps no bytes; errors are the socket's own.

require "openssl"
require "socket"

module Gyre
  module Log
    # What both transports do:
    #
    #   handshake          true when it is through, else :wait_readable or :wait_writable
    #   read(limit, into)  String (the very one given), nil at the end, :wait_readable or :wait_writable. No byte waits where a poll
    #                      would not tell of it, when the limit is that of a TLS record (16 KB) or more
    #   write(bytes)       how many were taken, :wait_writable or :wait_readable
    #   discard(into)      true while the peer still sends or may do so, false at the end
    #   finish             tells the peer that nothing more will come
    #   close
    module Transport
      # A socket without TLS.
      class Plain
        # @return [Socket]
        attr_reader :to_io

        # @param socket [Socket] connected
        def initialize(socket)
          @to_io = socket
        end

        def handshake
          true
        end

        def read(limit, into)
          @to_io.read_nonblock(limit, into, exception: false)
        end

        def write(bytes)
          @to_io.write_nonblock(bytes, exception: false)
        end

        def discard(into)
          !@to_io.read_nonblock(DISCARD_BYTES, into, exception: false).nil?
        rescue SystemCallError
          false
        end

        def finish
          @to_io.shutdown(:WR)
        end

        def close
          @to_io.close
        end

        # @return [nil]
        def certified_name; end
      end

      # A socket with TLS.
      class Secure < Plain
        # @param socket [Socket] connected
        # @param context [OpenSSL::SSL::SSLContext]
        def initialize(socket, context)
          super(socket)
          @tls = OpenSSL::SSL::SSLSocket.new(socket, context)
        end

        def handshake
          result = @tls.accept_nonblock(exception: false)
          result.equal?(@tls) ? true : result
        end

        # Many clients go without TLS's farewell. Messages have their length, so that cannot cut one off unseen.
        def read(limit, into)
          @tls.read_nonblock(limit, into, exception: false)
        rescue OpenSSL::SSL::SSLError => error
          raise unless error.message.include?("unexpected eof")
        end

        def write(bytes)
          @tls.write_nonblock(bytes, exception: false)
        end

        # The socket does not block, so neither does the farewell; there is none in the middle of a handshake.
        def finish
          @tls.sysclose # sync_close is off: the socket stays
          super
        rescue OpenSSL::SSL::SSLError
          super
        end

        # @return [String, nil] the name in the client's certificate
        def certified_name
          @tls.peer_cert&.subject&.to_utf8
        end
      end

      DISCARD_BYTES = 65_536
    end
  end
end
