# frozen_string_literal: true

# What a memcached client raises, beside ArgumentError for what cannot be sent. Under Dalli's names
# they are in memcached/dalli.rb. Defines classes only.

require "gyre/errors"

module Gyre
  module Memcached
    # What every error of a client is, except for a caller's mistake.
    class Error < Gyre::Error; end

    # A server could not be reached, closed the connection or did not reply in time.
    class NetworkError < Error
      # @param sent [Boolean] whether bytes of the command may have been sent
      # @param down [Boolean] whether the server counts as down now
      # @return [self]
      # @api private
      def describe(sent:, down:)
        @sent = sent
        @down = down
        self
      end

      # @return [Boolean] whether the command may have been applied
      def sent? = @sent ? true : false

      # @return [Boolean] whether the server counts as down since this failure
      def down? = @down ? true : false
    end

    # No server that could hold the key is available.
    class NoServerError < Error; end

    # A server's reply breaks the protocol. Its connection is closed.
    class ProtocolError < NetworkError; end

    # A server replied with SERVER_ERROR: it is out of memory, for example.
    class ServerError < Error; end

    # A server replied with CLIENT_ERROR or ERROR: it refuses the command, such as an incr of what
    # is no number.
    class CommandError < Error; end

    # The client's queue is full, or the client is closed.
    class Unavailable < Error; end

    # The serializer cannot store such an object so that it comes back as it was.
    class SerializationError < Error; end

    # What is stored is not in the form that the client's serializer or compressor reads.
    class DeserializationError < Error; end

    # A method that needs its reply was called in a quiet block.
    class NotPermittedInQuiet < Error; end

    # The value is larger than the servers accept.
    class ValueTooLarge < ArgumentError; end
  end
end
