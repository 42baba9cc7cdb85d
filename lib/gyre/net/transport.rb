# frozen_string_literal: true

# A connected socket with buffers, plain or TLS, for any program: with a scheduler its waits let other fibers run, without one they
# block the present thread only. What moves bytes is in C (ext/gyre/net/); here are the methods over it. Gyre.connect and
# Gyre.listen make transports.
module Gyre
  # A byte stream to a peer.
  class Transport
    # Bytes of a line, or of what {#read_until} looks through.
    LINE_BYTES_LIMIT = 1024 * 1024

    # Reads so many bytes.
    #
    # @param length [Integer] bytes
    # @return [String] binary
    # @raise [EOFError] when the end comes before
    def read_exactly(length)
      bytes = read(length)
      return bytes if bytes && bytes.bytesize == length

      raise EOFError, "#{peer} ended after #{bytes.to_s.bytesize} of #{length} bytes"
    end

    # Reads up to a separator.
    #
    # @param separator [String] a byte at least
    # @param limit [Integer] bytes that may come before it
    # @param chomp [Boolean] whether to leave the separator out
    # @return [String, nil] binary; nil when the end comes before the separator
    # @raise [ProtocolError] when more bytes come
    def read_until(separator, limit: LINE_BYTES_LIMIT, chomp: true)
      take_until(separator, limit, !chomp, false)
    end

    # Reads a line. The last one may lack its end.
    #
    # @param separator [String]
    # @param limit [Integer] bytes that may come before the separator
    # @param chomp [Boolean] whether to leave the separator out
    # @return [String, nil] binary; nil at the end
    # @raise [ProtocolError] when more bytes come
    def gets(separator = "\n", limit: LINE_BYTES_LIMIT, chomp: false)
      take_until(separator, limit, !chomp, true)
    end

    # @yieldparam line [String] as {#gets} returns it
    # @return [self, Enumerator]
    def each_line(separator = "\n", **options)
      return enum_for(:each_line, separator, **options) unless block_given?

      while (line = gets(separator, **options))
        yield line
      end
      self
    end

    # @param string [String]
    # @return [self]
    def <<(string)
      write(string)
      self
    end

    # Tells the peer that the stream is over, and closes the socket. May be called again.
    #
    # @return [nil]
    def close
      return if to_io.closed?

      begin
        close_write
      rescue SystemCallError, IOError, TimeoutError, TLS::Error
        nil # the peer is gone already
      end
      to_io.close
    end

    # @return [Boolean]
    def closed?
      to_io.closed?
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{peer}#{" TLS" if tls?}#{" closed" if closed?}>"
    end
  end
end
