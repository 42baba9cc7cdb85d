# frozen_string_literal: true

# A hijacked TLS connection: a Gyre::Transport with the methods that Rack requires of a hijacked IO.
# Made by Exchange#hijack, because a Socket would return ciphertext.

require "forwardable"
require "gyre/net/transport"
require "gyre/net/tls"
require "socket"

module Gyre
  module HTTP
    module H1
      # Rack SPEC, "Hijacking".
      class HijackedTransport
        extend Forwardable

        # `to_io` is the socket with the ciphertext; it may only be used for waiting.
        def_delegators :@transport, :to_io, :write, :gets, :close_write, :close, :closed?

        def initialize(transport)
          @transport = transport
          @ended = false
        end

        def read(length = nil, buffer = nil) = into(buffer, up_to_end { @transport.read(length) } || (length ? nil : +""))

        def readpartial(length, buffer = nil) = into(buffer, up_to_end { @transport.read_partial(length) }) || raise(EOFError, "end of file reached")

        def read_nonblock(length, buffer = nil, exception: true)
          bytes = up_to_end { @transport.read_available(length) }
          return into(buffer, bytes) if bytes.is_a?(String)
          return bytes unless exception
          raise EOFError, "end of file reached" unless bytes

          would_block(bytes)
        end

        # Accepts all bytes or none. Bytes that cannot be sent now are sent with the next write.
        def write_nonblock(string, exception: true)
          unless (held = @transport.flush_available) == true
            return exception ? would_block(held) : held
          end

          @transport.queue(string)
          @transport.flush_available
          string.bytesize
        end

        def <<(string)
          write(string.to_s)
          self
        end

        # Sends the bytes that the last non-blocking write has left.
        def flush
          write("")
          self
        end

        def close_read
          shutdown(:RD)
          nil
        end

        # Ends one or both directions without waiting.
        def shutdown(how = :RDWR)
          @ended = true unless how == :WR
          to_io.shutdown(how)
        end

        private

        # Returns nil if TLS reports a truncation because this side has shut down reading.
        def up_to_end
          yield
        rescue TLS::Truncated
          raise unless @ended
        end

        def into(buffer, bytes)
          return bytes unless buffer

          buffer.replace(bytes || "")
          bytes && buffer
        end

        def would_block(side)
          raise IO::EAGAINWaitReadable, "read would block" if side == :wait_readable

          raise IO::EAGAINWaitWritable, "write would block"
        end
      end
    end

    # A hijacked connection for which more bytes than the head have arrived. Made by
    # Exchange#hijack. The IO's own buffer holds these bytes for Ruby's reads, IO.select and
    # IO.copy_stream. This class adds calls that Ruby refuses while the buffer has bytes.
    module H1
      # Code that reads the descriptor without Ruby's IO misses the buffered bytes.
      class HijackedSocket < Socket
        def self.with(descriptor, bytes) = for_fd(descriptor).tap { |socket| socket.ungetbyte(bytes) }

        def sysread(length, buffer = nil)
          super
        rescue IOError => error
          take(error, length, 0, buffer)
        end

        def recv(length, flags = 0, buffer = nil)
          buffer ? super : super(length, flags)
        rescue IOError => error
          take(error, length, flags, buffer)
        end

        def recv_nonblock(length, flags = 0, buffer = nil, exception: true)
          super
        rescue IOError => error
          take(error, length, flags, buffer)
        end

        private

        # Reads from the buffer after Ruby's refusal. Never waits, as the buffer has bytes.
        def take(error, length, flags, buffer)
          raise error unless error.message.end_with?("for buffered IO")

          bytes = readpartial(length)
          ungetbyte(bytes) if flags.anybits?(MSG_PEEK)
          buffer ? buffer.replace(bytes) : bytes
        end
      end
    end
  end
end
