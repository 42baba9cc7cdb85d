# frozen_string_literal: true

# The errors of a memcached client, besides ArgumentError for invalid arguments. memcached/dalli.rb
# defines Dalli's names for them. Defines classes only.

require "gyre/errors"

module Gyre
  module Memcached
    # The superclass of a client's errors, except for a caller's mistakes.
    class Error < Gyre::Error; end

    # A server was unreachable, closed the connection or exceeded the timeout.
    class NetworkError < Error; end

    class NoServerError < Error; end

    class ProtocolError < NetworkError; end

    # A server replied with SERVER_ERROR, because its memory is full, for example.
    class ServerError < Error; end

    # A server replied with CLIENT_ERROR or ERROR: the command is invalid, such as incr of text.
    class CommandError < Error; end

    # The serializer cannot restore such an object unchanged.
    class SerializationError < Error; end

    # A stored value does not have the format of the client's serializer or compressor.
    class DeserializationError < Error; end

    # A method that needs a reply was called in a quiet block, where commands have none.
    class NotPermittedInQuiet < Error; end

    # The value is larger than the servers accept.
    class ValueTooLarge < ArgumentError; end
  end
end
