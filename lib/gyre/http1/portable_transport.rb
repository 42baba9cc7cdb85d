# frozen_string_literal: true

# The portable connection's socket with what was received and not used yet. PortableConnection and PortableBody read and
# write through it; parking and timeouts are here. It knows nothing of HTTP, and keeps no buffer while there is nothing in it.

require "io/wait"
require "socket"
require "gyre/http1/errors"

module Gyre
  module HTTP1
    # Bytes in, bytes out, with two time limits.
    class PortableTransport
      # How much is asked of the kernel at once.
      PIECE_BYTES = 65_536
      # SO_LINGER with time 0: close sends RST.
      RESET = [1, 0].pack("ii").freeze
      private_constant :RESET

      # @return [Socket]
      attr_reader :socket
      # @return [String] BINARY, received and not consumed; not to be changed
      attr_reader :bytes

      # @param socket [Socket] connected
      # @param limits [Limits]
      def initialize(socket, limits)
        @socket = socket
        @read_timeout_s = limits.read_timeout_s
        @write_timeout_s = limits.write_timeout_s
        @bytes = NOTHING
      end

      NOTHING = String.new.freeze
      private_constant :NOTHING

      # Takes what the kernel has, without waiting.
      #
      # @return [Symbol] :data (in {#bytes}), :wait or :end
      # @raise [SystemCallError]
      def receive
        data = @socket.recv_nonblock(PIECE_BYTES, exception: false)
        return :wait if data == :wait_readable
        return :end if data.nil? || data.empty? # "" before Ruby 3.3

        @bytes.empty? ? @bytes = data : @bytes << data
        :data
      end

      # The same, waiting for something.
      #
      # @return [Symbol] :data, :end or :timeout
      # @raise [SystemCallError]
      def fill
        while (result = receive) == :wait
          return :timeout unless @socket.wait_readable(@read_timeout_s)
        end
        result
      end

      # @param length [Integer] how many of {#bytes} were used
      # @return [void]
      def consume(length)
        @bytes = length < @bytes.bytesize ? @bytes.byteslice(length..-1) : NOTHING
      end

      # @param length [Integer]
      # @return [String] up to so many of {#bytes}, which are used then
      def take(length)
        return @bytes.tap { discard } if length >= @bytes.bytesize

        @bytes.byteslice(0, length).tap { consume(length) }
      end

      # @return [void]
      def discard
        @bytes = NOTHING
      end

      # Writes all of it, waiting while the peer is slow.
      #
      # @param bytes [String]
      # @return [void]
      # @raise [WriteTimeout] the peer took nothing for too long
      # @raise [SystemCallError] EPIPE, ECONNRESET and the like
      def write(bytes)
        until bytes.empty?
          written = @socket.write_nonblock(bytes, exception: false)
          if written == :wait_writable
            @socket.wait_writable(@write_timeout_s) || raise(WriteTimeout, "the client took nothing for #{@write_timeout_s} s")
          else
            bytes = bytes.byteslice(written..-1)
          end
        end
      end

      # @return [Symbol] :data, :wait or :end; what came is thrown away
      # @raise [SystemCallError]
      def drop
        discard
        receive.tap { discard }
      end

      # @return [void]
      def shutdown_write
        @socket.shutdown(:WR)
      rescue SystemCallError
        nil # the peer is gone; closing will find out
      end

      # @return [void]
      def close
        @socket.close
      end

      # Closes so that the peer notices that something is missing.
      #
      # @return [void]
      def reset
        @socket.setsockopt(:SOCKET, :LINGER, RESET)
      rescue SystemCallError
        nil # reset by the peer already
      ensure
        close
      end
    end
  end
end
