# frozen_string_literal: true

# A connected socket with buffers, plain or TLS, for any program: waits let other fibers run with a
# scheduler, and otherwise block only the thread. ext/gyre/net/ moves bytes; this file has methods.
# Made by Gyre.connect and Gyre.listen.
require "gyre/loop"
require "gyre/net/turn"

module Gyre
  # A byte stream to a peer.
  class Transport
    # Limit in bytes for a line, or for {#read_until}.
    LINE_BYTES_LIMIT = 1024 * 1024
    # Longest wait in seconds of {#close} for a peer that takes nothing.
    CLOSE_TIMEOUT_S = 5

    # The extension defines the constructor.
    def initialize(*) = Loop.require_native("Gyre::Transport") unless Loop.native?

    # Reads exactly `length` bytes.
    #
    # @param length [Integer] bytes
    # @return [String] binary
    # @raise [EOFError] if the end comes before
    def read_exactly(length)
      bytes = read(length)
      return bytes if bytes && bytes.bytesize == length

      raise EOFError, "#{peer} ended after #{bytes.to_s.bytesize} of #{length} bytes"
    end

    # Reads up to a separator.
    #
    # @param separator [String] at least a byte
    # @param limit [Integer] the most bytes before it
    # @param chomp [Boolean] whether to leave the separator out
    # @return [String, nil] binary; nil if the end comes before the separator
    # @raise [ProtocolError] if more bytes come
    def read_until(separator, limit: LINE_BYTES_LIMIT, chomp: true) = take_until(separator, limit, !chomp, false)

    # Reads a line. The last one may have no separator.
    #
    # @param separator [String]
    # @param limit [Integer] the most bytes before the separator
    # @param chomp [Boolean] whether to leave the separator out
    # @return [String, nil] binary; nil at the end
    # @raise [ProtocolError] if more bytes come
    def gets(separator = "\n", limit: LINE_BYTES_LIMIT, chomp: false) = take_until(separator, limit, !chomp, true)

    # @yieldparam line [String] as {#gets} returns it
    # @return [self, Enumerator]
    def each_line(separator = "\n", **options)
      return enum_for(:each_line, separator, **options) unless block_given?

      while (line = gets(separator, **options))
        yield line
      end
      self
    end

    # Starts TLS on the stream and performs the handshake. For a server, or after STARTTLS:
    # {Gyre.connect} and {Gyre.listen} do it themselves. Sends earlier bytes in plain text.
    #
    # @param context [TLS::Context]
    # @param name [String, nil] for a client, the server's: sent (RFC 6066) and verified in its
    #   certificate; optional without verification
    # @param timeout_s [Numeric, nil] for the whole handshake
    # @return [self]
    # @raise [ArgumentError] a client that verifies has no name
    # @raise [TLS::Error, TimeoutError, SystemCallError]
    def start_tls(context, name: nil, timeout_s: nil)
      start(context, name)
      handshake(timeout_s)
    end

    # Starts TLS like {#start_tls}, without waiting: {#handshake_available}, reads and writes
    # perform the handshake.
    #
    # @param context [TLS::Context]
    # @param name [String, nil]
    # @return [self]
    # @raise [ArgumentError] as {#start_tls}
    def begin_tls(context, name: nil) = start(context, name)

    # Sends the queue and the end of the stream, and closes the socket. Waits write_timeout_s, at
    # most {CLOSE_TIMEOUT_S}, for a peer that takes nothing. Does not wait after an interrupted
    # write. May be called again.
    #
    # @return [nil]
    def close
      return if closed?

      begin
        self.write_timeout_s = [write_timeout_s, CLOSE_TIMEOUT_S].compact.min
        stuck? ? finish_available : close_write
      rescue SystemCallError, IOError, TimeoutError, TLS::Error
        nil # the peer is gone
      end
      nil
    ensure
      abandon
    end

    # @return [Boolean]
    def closed? = to_io.closed?

    # @return [String]
    def inspect
      "#<#{self.class} #{peer}#{" TLS" if tls?}#{" closed" if closed?}>"
    end
  end
end
