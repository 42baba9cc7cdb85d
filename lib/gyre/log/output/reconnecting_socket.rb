# frozen_string_literal: true

# A connection to another server that comes back by itself. Used by Output::Socket and
# Output::Redis, which decide what is sent and when it has arrived; this connects, waits between
# tries, and starts over after each failure. It never gives up.

require "gyre/errors"
require "gyre/log/output/retry"
require "gyre/net"

module Gyre
  module Log
    module Output
      # The other server could not be asked.
      class Unavailable < Gyre::Error; end

      # TCP or Unix.
      class ReconnectingSocket
        # What a broken connection may raise.
        ERRORS = [SystemCallError, IOError, SocketError, Gyre::TimeoutError].freeze
        CONNECT_TIMEOUT_S = 10
        # Bytes of a batch that are copied at once.
        PIECE_BYTES = 256 * 1024
        private_constant :PIECE_BYTES

        # @param retries [Retry]
        # @param endpoint [Endpoint] where the other side is
        # @yieldparam transport [Transport] each new connection, for a greeting; what it raises of
        #   ERRORS makes a new try
        def initialize(retries, endpoint, connect_timeout_s: CONNECT_TIMEOUT_S, &greet)
          @retries = retries
          @connect_timeout_s = connect_timeout_s
          @endpoint = endpoint
          @greet = greet
        end

        # Runs the block with a connection, and again with a new one when it breaks, until it
        # returns.
        # @param doing [String] for messages
        # @param errors [Array<Class>] more than ERRORS that make a new try
        # @yieldparam transport [Transport]
        # @return the block's value
        def use(doing, *errors, &block)
          @retries.until_success(doing, *ERRORS, *errors) { attempt(&block) }
        end

        # The same, but on a new connection at most.
        # @raise [Unavailable]
        def try(doing, *errors, &block)
          former = @transport
          begin
            attempt(&block)
          rescue *ERRORS, *errors => error
            raise Unavailable, "cannot #{doing}: #{error.message}" unless former

            former = nil
            retry
          end
        end

        # Within {#use}: sends all of it.
        # @param data [String]
        def write(data)
          (0...data.bytesize).step(PIECE_BYTES) { |at| transport.write(data.byteslice(at, PIECE_BYTES)) }
        end

        # @return [Transport] the connection, made when there is none
        def transport
          @transport ||= Gyre.connect(@endpoint, timeout_s: @connect_timeout_s).tap do |transport|
            @transport = transport
            @greet&.call(transport)
          end
        end

        # What was not sent is not sent any more.
        def close
          @transport&.abandon
          @transport = nil
        end

        private

        def attempt
          whole = false
          value = yield transport
          whole = true
          value
        ensure
          close unless whole
        end
      end
    end
  end
end
