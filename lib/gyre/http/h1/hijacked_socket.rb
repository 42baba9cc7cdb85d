# frozen_string_literal: true

# A hijacked connection with bytes beyond the head, which reads return first. Made by
# Exchange#hijack. The IO's own buffer holds these bytes for Ruby's reads, IO.select and
# IO.copy_stream; this class adds calls that Ruby refuses while the buffer has bytes.

require "socket"

module Gyre
  module HTTP
    module H1
      # Code that reads the descriptor without Ruby misses these bytes.
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
