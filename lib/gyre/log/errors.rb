# frozen_string_literal: true

# Errors of a log client besides ArgumentError, and the errors that its threads survive.

require "gyre/errors"

module Gyre
  module Log
    # The server refuses the key. Logged records are kept.
    class Denied < Error; end

    # The server does not speak the acknowledged protocol.
    class Incompatible < Error; end

    # The id is another client's at the server. The client continues with a new id.
    class IdentityTaken < ProtocolError; end

    # The queue is full and when_full is :raise.
    class SpoolFull < Error; end

    # The client was closed.
    class Closed < Error; end

    # Rescued by a client's threads: a dead thread would raise them in `join`, amid spooling.
    FAULTS = [StandardError, ScriptError, NoMemoryError, SystemStackError].freeze
  end
end
