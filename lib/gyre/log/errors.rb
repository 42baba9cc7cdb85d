# frozen_string_literal: true

# Exceptions of a log client besides ArgumentError (for invalid messages), and the exceptions that
# its threads survive. Defines classes only.

require "gyre/errors"

module Gyre
  module Log
    # The server refuses the key. Logged records are kept.
    class Denied < Error; end

    # The server does not speak the acknowledged protocol.
    class Incompatible < Error; end

    # The server assigns the client's id to another client. The client continues with a new id.
    class IdentityTaken < ProtocolError; end

    # The queue is full and when_full is :raise.
    class SpoolFull < Error; end

    # The client was closed.
    class Closed < Error; end

    # Threads of a client rescue these, as a dead thread would raise them in `join`, amid spooling.
    FAULTS = [StandardError, ScriptError, NoMemoryError, SystemStackError].freeze
  end
end
