# frozen_string_literal: true

# Errors of a memcached client besides ArgumentError. memcached/dalli.rb has Dalli's names for them.

require "gyre/errors"

module Gyre
  module Memcached
    # All but the caller's mistakes.
    class Error < Gyre::Error; end

    # A server is unreachable, closed the connection or is too slow.
    class NetworkError < Error; end

    class NoServerError < Error; end

    class ProtocolError < NetworkError; end

    # SERVER_ERROR, for example of a full memory.
    class ServerError < Error; end

    # CLIENT_ERROR or ERROR: an invalid command, such as incr of text.
    class CommandError < Error; end

    # The serializer could not restore such an object unchanged.
    class SerializationError < Error; end

    # A stored value is not in the client's format.
    class DeserializationError < Error; end

    # A quiet block's commands have no replies.
    class NotPermittedInQuiet < Error; end

    # The value exceeds the servers' limit.
    class ValueTooLarge < ArgumentError; end
  end
end
