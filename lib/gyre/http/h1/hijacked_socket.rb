# frozen_string_literal: true

# A hijacked connection whose first bytes were read already: they come first, then the socket's.
# Exchange#hijack makes one instead of a plain Socket if the client sent more than the head. The
# bytes are in the IO's own read buffer, which Ruby's reads, IO.select and IO.copy_stream use. This
# class adds the calls that bypass the buffer, which Ruby refuses while it has bytes.

require "socket"

module Gyre
  module HTTP
    module H1
      # Code that reads the descriptor without Ruby (other gems' C code, TLS) does not see the
      # bytes.
      class HijackedSocket < Socket
        # `bytes` are BINARY and not empty.
        def self.with(descriptor, bytes)
          for_fd(descriptor).tap { |socket| socket.ungetbyte(bytes) }
        end

        def sysread(length, buffer = nil)
          buffered { super }
        rescue Buffered
          readpartial(length, buffer)
        end

        def recv(length, flags = 0, buffer = nil)
          buffered { buffer ? super : super(length, flags) }
        rescue Buffered
          take(length, flags, buffer)
        end

        def recv_nonblock(length, flags = 0, buffer = nil, exception: true)
          buffered { super }
        rescue Buffered
          take(length, flags, buffer)
        end

        # Ruby's refusal, as opposed to other IOErrors.
        class Buffered < IOError; end
        private_constant :Buffered

        private

        # "sysread for buffered IO", "recv for buffered IO", …
        def buffered
          yield
        rescue IOError => error
          raise unless error.message.end_with?("for buffered IO")

          raise Buffered
        end

        # Bytes are there, so this does not wait.
        def take(length, flags, buffer = nil)
          bytes = readpartial(length)
          ungetbyte(bytes) if flags.anybits?(MSG_PEEK)
          buffer ? buffer.replace(bytes) : bytes
        end
      end
    end
  end
end
