# frozen_string_literal: true

# The errors of a memcached client, beside ArgumentError for what cannot be sent. memcached/dalli.rb
# has Dalli's names for them. Defines classes only.

require "gyre/errors"

module Gyre
  module Memcached
    # Every error of a client, except for a caller's mistake.
    class Error < Gyre::Error; end

    # A server could not be reached, closed the connection or did not reply in time.
    class NetworkError < Error; end

    # No server that could hold the key is available.
    class NoServerError < Error; end

    # A server's reply breaks the protocol. Its connection is closed.
    class ProtocolError < NetworkError; end

    # A server replied with SERVER_ERROR: it is out of memory, for example.
    class ServerError < Error; end

    # A server replied with CLIENT_ERROR or ERROR: it refuses the command, such as an incr of text.
    class CommandError < Error; end

    # The serializer cannot store such an object so that it comes back as it was.
    class SerializationError < Error; end

    # A stored value is not in the form that the client's serializer or compressor reads.
    class DeserializationError < Error; end

    # A method that needs its reply was called in a quiet block.
    class NotPermittedInQuiet < Error; end

    # The value is larger than the servers accept.
    class ValueTooLarge < ArgumentError; end
  end
end
