# frozen_string_literal: true

# Connects to another server, for outputs of the log and for Redis. Retries with growing pauses.

require "gyre/net"
require "gyre/net/retry"

module Gyre
  # @api private
  class ReconnectingSocket
    ERRORS = [SystemCallError, IOError, SocketError, TimeoutError, TLS::Error].freeze
    CONNECT_TIMEOUT_S = 10
    # Maximum bytes of a batch that are copied at once.
    PIECE_BYTES = 256 * 1024

    # TLS settings of the endpoint are keywords of TLS.client.
    def initialize(retries, endpoint)
      @retries = retries
      @endpoint = endpoint.with(tls: nil)
      @tls = TLS.client(**endpoint.tls) if endpoint.tls
    end

    # Yields a connection, and yields again after a lost connection. Returns the block's value.
    # `errors` cause a retry like ERRORS.
    def use(doing, *errors)
      @retries.until_success(doing, *ERRORS, *errors) do
        whole = false
        value = yield transport
        whole = true
        value
      ensure
        close unless whole
      end
    end

    def write(data) = (0...data.bytesize).step(PIECE_BYTES) { |at| transport.write(data.byteslice(at, PIECE_BYTES)) }

    def transport
      @transport ||= Gyre.connect(@endpoint, tls: @tls, timeout_s: CONNECT_TIMEOUT_S).tap do |transport|
        @transport = transport
        greet(transport)
      end
    end

    def close
      @transport&.abandon
      @transport = nil
    end

    private

    # Called with each new transport, for subclasses. ERRORS that it raises cause a retry.
    def greet(_transport); end
  end
end
