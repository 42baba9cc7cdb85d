# frozen_string_literal: true

# A connected socket with buffers, plain or TLS, for any program: with a scheduler its waits let
# other fibers run, without one they block the present thread only. What moves bytes is in C
# (ext/gyre/net/); here are the methods over it. Gyre.connect and Gyre.listen make transports.
require "gyre/net/turn"

module Gyre
  # A byte stream to a peer.
  class Transport
    # Bytes of a line, or of what {#read_until} looks through.
    LINE_BYTES_LIMIT = 1024 * 1024
    # How long {#close} waits at most for a peer that takes nothing.
    CLOSE_TIMEOUT_S = 5

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

    # Puts TLS under the stream, and makes the handshake. For a server, or after STARTTLS:
    # {Gyre.connect} and {Gyre.listen} do it by themselves. What was written or queued before is
    # sent as it is.
    #
    # @param context [TLS::Context]
    # @param name [String, nil] the server's, for a client: sent (RFC 6066) and looked for in its
    #   certificate; not needed by a client that verifies nothing
    # @param timeout_s [Numeric, nil] for the whole handshake
    # @return [self]
    # @raise [ArgumentError] a client that verifies has no name
    # @raise [TLS::Error, TimeoutError, SystemCallError]
    def start_tls(context, name: nil, timeout_s: nil)
      start(context, name)
      handshake(timeout_s)
    end

    # As {#start_tls}, without waiting: {#handshake_available} and the calls that read and write
    # make the handshake.
    #
    # @param context [TLS::Context]
    # @param name [String, nil]
    # @return [self]
    # @raise [ArgumentError] as {#start_tls}
    def begin_tls(context, name: nil)
      start(context, name)
    end

    # Sends what is queued and the end of the stream, and closes the socket. A peer
    # that takes nothing is waited for as long as write_timeout_s allows, at most {CLOSE_TIMEOUT_S};
    # not at all when a write was interrupted before. May be called again.
    #
    # @return [nil]
    def close
      return if closed?

      begin
        self.write_timeout_s = [write_timeout_s, CLOSE_TIMEOUT_S].compact.min
        stuck? ? finish_available : close_write
      rescue SystemCallError, IOError, TimeoutError, TLS::Error
        nil # the peer is gone already
      end
      nil
    ensure
      abandon
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
