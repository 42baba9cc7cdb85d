# frozen_string_literal: true

# A hijacked connection over TLS: a Gyre::Transport with the methods that Rack asks of a hijacked
# stream. Exchange#hijack makes one in place of a Socket, which would read and write ciphertext. It
# keeps no bytes of its own.

require "forwardable"
require "gyre/net/transport"
require "gyre/net/tls"

module Gyre
  module HTTP
    module H1
      # Rack SPEC, "Hijacking".
      class HijackedTransport
        extend Forwardable

        # @!method to_io
        #   @return [Socket] of the ciphertext: to be waited for only
        # @!method write(*strings)
        #   @return [Integer] bytes; see {Transport#write}
        # @!method gets(separator = "\n")
        #   @return [String, nil] a line; see {Transport#gets}
        # @!method close_write
        #   @return [nil] the peer gets the end of the stream
        # @!method close
        #   @return [nil]
        # @!method closed?
        #   @return [Boolean]
        def_delegators :@transport, :to_io, :write, :gets, :close_write, :close, :closed?

        # @param transport [Transport]
        def initialize(transport)
          @transport = transport
          @ended = false
        end

        # @param length [Integer, nil] bytes; nil: all up to the end
        # @param buffer [String, nil] its content is replaced
        # @return [String, nil] as IO#read
        def read(length = nil, buffer = nil)
          into(buffer, up_to_end { @transport.read(length) } || (length ? nil : +""))
        end

        # @param length [Integer] bytes at most
        # @param buffer [String, nil] its content is replaced
        # @return [String] what is there, a byte at least
        # @raise [EOFError] at the end
        def readpartial(length, buffer = nil)
          into(buffer, up_to_end { @transport.read_partial(length) }) || raise(EOFError, "end of file reached")
        end

        # @param length [Integer] bytes at most
        # @param buffer [String, nil] its content is replaced
        # @param exception [Boolean] as for IO#read_nonblock
        # @return [String, Symbol, nil]
        # @raise [IO::WaitReadable, IO::WaitWritable, EOFError]
        def read_nonblock(length, buffer = nil, exception: true)
          bytes = up_to_end { @transport.read_available(length) }
          return into(buffer, bytes) if bytes.is_a?(String)
          return bytes unless exception
          raise EOFError, "end of file reached" unless bytes

          would_block(bytes)
        end

        # Takes all or nothing: what the socket does not take at once leaves with the next write.
        #
        # @param string [String]
        # @param exception [Boolean] as for IO#write_nonblock
        # @return [Integer, Symbol] bytes
        # @raise [IO::WaitReadable, IO::WaitWritable]
        def write_nonblock(string, exception: true)
          unless (held = @transport.flush_available) == true
            return exception ? would_block(held) : held
          end

          @transport.queue(string)
          @transport.flush_available
          string.bytesize
        end

        # @param string [#to_s]
        # @return [self]
        def <<(string)
          write(string.to_s)
          self
        end

        # Each write has been sent already, but for the last one that did not wait.
        #
        # @return [self]
        def flush
          write("")
          self
        end

        # @return [nil]
        def close_read
          shutdown(:RD)
          nil
        end

        # Ends a side, or both, without waiting.
        #
        # @param how [Symbol] :RD, :WR or :RDWR
        # @return [Integer] 0
        def shutdown(how = :RDWR)
          @ended = true unless how == :WR
          to_io.shutdown(how)
        end

        private

        # This side has ended what it reads: TLS cannot, and takes it for a cut.
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
  end
end
