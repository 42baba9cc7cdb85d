# frozen_string_literal: true

# A hijacked connection whose first bytes were already read: reads return them before the socket's
# bytes. Made by Exchange#hijack instead of a plain Socket if the client sent more than the head.
# The IO's own read buffer holds these bytes for Ruby's reads, IO.select and IO.copy_stream. This
# class adds calls that bypass the buffer, which Ruby refuses while it has bytes.

require "socket"

module Gyre
  module HTTP
    module H1
      # Code that reads the descriptor without Ruby (C code of other gems, TLS) misses these bytes.
      class HijackedSocket < Socket
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

        # Ruby's refusal; other IOErrors have another class.
        class Buffered < IOError; end
        private_constant :Buffered

        private

        # Handles "sysread for buffered IO", "recv for buffered IO", …
        def buffered
          yield
        rescue IOError => error
          raise unless error.message.end_with?("for buffered IO")

          raise Buffered
        end

        # Does not wait, as bytes are present.
        def take(length, flags, buffer = nil)
          bytes = readpartial(length)
          ungetbyte(bytes) if flags.anybits?(MSG_PEEK)
          buffer ? buffer.replace(bytes) : bytes
        end
      end
    end
  end
end
