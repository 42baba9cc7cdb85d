# frozen_string_literal: true

# Exceptions of a log client, beside ArgumentError for what cannot be logged, and those that its
# threads survive. Defines classes only.

require "gyre/errors"

module Gyre
  module Log
    # The server refuses the key. What was logged is kept.
    class Denied < Error; end

    # The server does not speak the acknowledged protocol.
    class Incompatible < Error; end

    # The server takes the client's id for another client's. The client goes on with a fresh one.
    class IdentityTaken < ProtocolError; end

    # A message has no room, and when_full is :raise.
    class SpoolFull < Error; end

    # The client was closed.
    class Closed < Error; end

    # Threads of a client survive these: a thread that dies would raise it where it is joined,
    # in the middle of the spooling.
    FAULTS = [StandardError, ScriptError, NoMemoryError, SystemStackError].freeze
  end
end
