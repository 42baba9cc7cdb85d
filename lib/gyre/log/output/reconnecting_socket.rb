# frozen_string_literal: true

# A connection to another server that comes back by itself. Used by Output::Socket and Output::Redis: they say what to send and
# when it has arrived; this connects, waits between tries, and starts over after each failure. It gives up on nothing.

require "gyre/errors"
require "gyre/log/output/retry"
require "io/wait"
require "socket"

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
        PIECE_BYTES = 256 * 1024
        private_constant :PIECE_BYTES

        # @param retries [Retry]
        # @param endpoint [Endpoint] where the other side is
        # @yieldparam io [Socket] each new connection, for a greeting; what it raises of ERRORS makes a new try
        def initialize(retries, endpoint, connect_timeout_s: CONNECT_TIMEOUT_S, &greet)
          @retries = retries
          @connect_timeout_s = connect_timeout_s
          @endpoint = endpoint
          @greet = greet
        end

        # Runs the block with a connection, and again with a new one when it breaks, until it returns.
        # @param doing [String] for messages
        # @param errors [Array<Class>] more than ERRORS that make a new try
        # @yieldparam io [Socket]
        # @return the block's value
        def use(doing, *errors)
          @retries.until_success(doing, *ERRORS, *errors) do
            whole = false
            value = yield(io)
            whole = true
            value
          ensure
            close unless whole
          end
        end

        # The same, but on a new connection at most.
        # @raise [Unavailable]
        def try(doing, *errors)
          former = @io
          begin
            whole = false
            value = yield(io)
            whole = true
            value
          ensure
            close unless whole
          end
        rescue *ERRORS, *errors => error
          raise Unavailable, "cannot #{doing}: #{error.message}" unless former

          former = nil
          retry
        end

        # Writes all of it.
        # @param data [String]
        def write(data)
          at = 0
          while at < data.bytesize
            count = io.write_nonblock(at.zero? ? data : data.byteslice(at, PIECE_BYTES), exception: false)
            count == :wait_writable ? io.wait_writable : at += count
          end
        end

        # @return [Socket] the connection, made when there is none
        def io
          @io ||= @endpoint.connect(@connect_timeout_s).tap do |io|
            @io = io
            @greet&.call(io)
          end
        end

        def close
          @io&.close
          @io = nil
        end
      end
    end
  end
end
