# frozen_string_literal: true

# What a log client raises, beside ArgumentError for what cannot be logged, and what its threads
# survive. Defines classes only.

require "gyre/errors"

module Gyre
  module Log
    # The server refuses the key. What was logged is kept.
    class Denied < Error; end

    # The server does not speak the acknowledged protocol.
    class Incompatible < Error; end

    # The server takes the client's id for another client's. The client goes on with a fresh one.
    class IdentityTaken < ProtocolError; end

    # There is no room for a message, and the client was told to say so.
    class SpoolFull < Error; end

    # The client was closed.
    class Closed < Error; end

    # What ends no thread of a client: a thread that dies of it would raise it where it is joined,
    # in the middle of the spooling.
    FAULTS = [StandardError, ScriptError, NoMemoryError, SystemStackError].freeze
  end
end
