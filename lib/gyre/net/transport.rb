# frozen_string_literal: true

# A connected socket with buffers, plain or TLS. A wait lets other fibers run, or blocks its
# thread if no scheduler is set. ext/gyre/net/ moves bytes; this file has methods. Made by
# Gyre.connect and Gyre.listen.
require "gyre/loop"
require "gyre/sync/waiters"

Gyre::Loop.define_native(:net)

module Gyre
  # A byte stream to a peer.
  class Transport
    # Default maximum of bytes before a separator, for {#gets} and {#read_until}.
    LINE_BYTES_LIMIT = 1024 * 1024
    # Maximum seconds that {#close} waits for a slow peer.
    CLOSE_TIMEOUT_S = 5

    # The extension defines the constructor.
    def initialize(*) = Loop.require_native("Gyre::Transport") unless Loop.native?

    # Reads exactly `length` bytes.
    # @param length [Integer] bytes
    # @return [String] binary
    # @raise [EOFError] the end comes before
    def read_exactly(length)
      bytes = read(length)
      return bytes if bytes && bytes.bytesize == length

      raise EOFError, "#{peer} ended after #{bytes.to_s.bytesize} of #{length} bytes"
    end

    # Reads up to a separator.
    # @param separator [String] at least a byte
    # @param limit [Integer] most bytes before it
    # @param chomp [Boolean] whether to omit the separator
    # @return [String, nil] binary; nil if the end comes before the separator
    # @raise [ProtocolError] more bytes come
    def read_until(separator, limit: LINE_BYTES_LIMIT, chomp: true) = take_until(separator, limit, !chomp, false)

    # Reads a line. The last line may end without a separator.
    # @param separator [String]
    # @param limit [Integer] most bytes before the separator
    # @param chomp [Boolean] whether to omit the separator
    # @return [String, nil] binary; nil at the end
    # @raise [ProtocolError] more bytes come
    def gets(separator = "\n", limit: LINE_BYTES_LIMIT, chomp: false) = take_until(separator, limit, !chomp, true)

    # @yieldparam line [String] as from {#gets}
    # @return [self, Enumerator]
    def each_line(separator = "\n", **options)
      return enum_for(:each_line, separator, **options) unless block_given?

      while (line = gets(separator, **options))
        yield line
      end
      self
    end

    # Performs the TLS handshake, for example after STARTTLS. {Gyre.connect} and {Gyre.listen} do
    # this themselves. Bytes that were written before are sent in plain text.
    # @param context [TLS::Context]
    # @param name [String, nil] a client's server: sent (RFC 6066) and verified
    # @param timeout_s [Numeric, nil] for the whole handshake
    # @return [self]
    # @raise [ArgumentError] a verifying client without a name
    # @raise [TLS::Error, TimeoutError, SystemCallError]
    def start_tls(context, name: nil, timeout_s: nil)
      start(context, name)
      handshake(timeout_s)
    end

    # Starts TLS without waiting. {#handshake_available}, reads and writes perform the handshake.
    # @param context [TLS::Context]
    # @param name [String, nil]
    # @return [self]
    # @raise [ArgumentError] as {#start_tls}
    def begin_tls(context, name: nil) = start(context, name)

    # Sends queued bytes and the end of the stream, and closes the socket. Waits up to
    # write_timeout_s for a slow peer, but at most {CLOSE_TIMEOUT_S}. Does not wait after an
    # interrupted write. Repeated calls do nothing.
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
    def inspect = "#<#{self.class} #{peer}#{" TLS" if tls?}#{" closed" if closed?}>"

    # Lets one fiber at a time read or write: a Mutex with a timeout. transport_object.c makes it
    # for the first waiter, locks it by rb_mutex_trylock, and calls {#wait}. Its owner calls
    # {#release}.
    # @api private
    class Turn < Thread::Mutex
      def initialize
        super
        @waiters = Waiters.new(self)
      end

      # Returns false after the timeout, true if the lock may be free.
      def wait(timeout_s) = @waiters.wait(timeout_s) { locked? }

      # Wakes the next waiter: the waiter woken before may have been interrupted.
      def pass = @waiters.wake

      def release
        Thread.handle_interrupt(SpinLock::NEVER) do
          unlock
          @waiters.wake
        end
      end
    end
  end
end
