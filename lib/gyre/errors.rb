# frozen_string_literal: true

# The exceptions of every layer, sorted by who is at fault (see docs/tasks.md for the tasks' ones).
# A caller's mistake is an ArgumentError and the network's is its Errno: neither is here.
# This file defines classes only and requires nothing.

module Gyre
  # What every error of Gyre's own is.
  class Error < StandardError; end

  # The time of a with_timeout, or of another wait with a limit, is over.
  class TimeoutError < Error
    # @param message [String]
    def initialize(message = "execution expired")
      super
    end
  end

  # The peer broke the protocol; says what to answer.
  class ProtocolError < Error
    # @return [Integer] the status or code that belongs in the answer, HTTP's 400 for example
    attr_reader :status

    # @param message [String] what was wrong, in one line without the peer's secrets
    # @param status [Integer]
    def initialize(message = "bad request", status = 400)
      super(message)
      @status = status
    end
  end

  # Raised in a task that is stopped, at its present wait. No StandardError, so that a `rescue => error` around some
  # work does not swallow the cancellation. Whoever rescues it has to raise it again.
  class Stop < Exception # rubocop:disable Lint/InheritException
    # @param message [String]
    def initialize(message = "the task was stopped")
      super
    end
  end
end
