# frozen_string_literal: true

# Errors of a memcached client, except ArgumentError. memcached/dalli.rb defines Dalli's names.

require "gyre/errors"

module Gyre
  module Memcached
    # Superclass of all errors except the caller's mistakes.
    class Error < Gyre::Error; end

    # A server is unreachable, has closed the connection, or replies too late.
    class NetworkError < Error; end

    class NoServerError < Error; end

    class ProtocolError < NetworkError; end

    # The server replied SERVER_ERROR, for example because its memory is full.
    class ServerError < Error; end

    # The server replied CLIENT_ERROR or ERROR to an invalid command, such as incr of a text.
    class CommandError < Error; end

    # The serializer cannot store the object without changing it.
    class SerializationError < Error; end

    # A stored value is damaged or in another format.
    class DeserializationError < Error; end

    # The method needs a reply, which a quiet block does not await.
    class NotPermittedInQuiet < Error; end

    # The value exceeds the servers' limit.
    class ValueTooLarge < ArgumentError; end
  end
end
