# frozen_string_literal: true

# Errors of a log client, except ArgumentError, and the errors that its threads rescue.

require "gyre/errors"
require "gyre/parts"

module Gyre
  module Log
    extend Parts

    # The server refused the key. The client keeps logged records.
    class Denied < Error; end

    # The server does not speak the acknowledged protocol.
    class Incompatible < Error; end

    # The server takes the client's id for another client's. The client continues with a new id.
    class IdentityTaken < ProtocolError; end

    # Memory and spool are full, and `when_full` is :raise.
    class SpoolFull < Error; end

    # The client was closed.
    class Closed < Error; end

    # Rescued in a client's helper threads. Otherwise `join` would raise them in the client's thread
    # before it has put its records into the spool.
    FAULTS = [StandardError, ScriptError, NoMemoryError, SystemStackError].freeze
  end
end
