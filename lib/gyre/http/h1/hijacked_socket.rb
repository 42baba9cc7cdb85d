# frozen_string_literal: true

# A hijacked connection whose first bytes had been read already: they come first, then the socket's.
# Exchange#hijack makes one in place of a plain Socket when a client sent more than the request's
# head. The bytes are put into the IO's own read buffer, so Ruby's ways of reading, IO.select and
# IO.copy_stream know of them. Here is what Ruby refuses while something is in that buffer: the
# calls that go past it to the kernel.

require "socket"

module Gyre
  module HTTP
    module H1
      # Only what reads the descriptor without Ruby (C code of other gems, TLS) does not see the
      # bytes.
      class HijackedSocket < Socket
        # @param descriptor [Integer]
        # @param bytes [String] BINARY, not empty
        # @return [HijackedSocket]
        def self.with(descriptor, bytes)
          for_fd(descriptor).tap { |socket| socket.ungetbyte(bytes) }
        end

        # @return [String] as IO#sysread
        def sysread(length, buffer = nil)
          buffered { super }
        rescue Buffered
          readpartial(length, buffer)
        end

        # @return [String] as BasicSocket#recv
        def recv(length, flags = 0, buffer = nil)
          buffered { buffer ? super : super(length, flags) }
        rescue Buffered
          take(length, flags, buffer)
        end

        # @return [String, Symbol] as BasicSocket#recv_nonblock
        def recv_nonblock(length, flags = 0, buffer = nil, exception: true)
          buffered { super }
        rescue Buffered
          take(length, flags, buffer)
        end

        # @return [Array(String, Addrinfo)] as Socket#recvfrom
        def recvfrom(length, flags = 0)
          buffered { super }
        rescue Buffered
          [take(length, flags), remote_address]
        end

        # @return [Array(String, Addrinfo), Symbol] as Socket#recvfrom_nonblock
        def recvfrom_nonblock(length, flags = 0, buffer = nil, exception: true)
          buffered { super }
        rescue Buffered
          [take(length, flags, buffer), remote_address]
        end

        # @return [Array(String, Addrinfo, Integer)] as BasicSocket#recvmsg
        def recvmsg(length = nil, flags = 0, control_length = nil, **options)
          buffered { super }
        rescue Buffered
          [take(length || MESSAGE_BYTES, flags), remote_address, 0]
        end

        # @return [Array(String, Addrinfo, Integer), Symbol] as BasicSocket#recvmsg_nonblock
        def recvmsg_nonblock(length = nil, flags = 0, control_length = nil, **options)
          buffered { super }
        rescue Buffered
          [take(length || MESSAGE_BYTES, flags), remote_address, 0]
        end

        # Ruby's refusal, told apart from other IOErrors.
        class Buffered < IOError; end
        # What recvmsg reads when no length is given.
        MESSAGE_BYTES = 4096
        private_constant :Buffered, :MESSAGE_BYTES

        private

        # "sysread for buffered IO", "recv for buffered IO", …
        def buffered
          yield
        rescue IOError => error
          raise unless error.message.end_with?("for buffered IO")

          raise Buffered
        end

        # Something is there, so this does not wait.
        def take(length, flags, buffer = nil)
          bytes = readpartial(length)
          ungetbyte(bytes) if flags.anybits?(MSG_PEEK)
          buffer ? buffer.replace(bytes) : bytes
        end
      end
    end
  end
end
