# frozen_string_literal: true

# The exceptions of every layer, sorted by what is at fault (see docs/tasks.md for the tasks' ones).
# A caller's mistake is an ArgumentError and the network's is its Errno: neither is here.
# This file defines classes only and requires nothing.

module Gyre
  # What every error of Gyre's own is.
  class Error < StandardError; end

  # The time of a with_deadline, of a with_timeout or of another wait with a limit is over.
  class TimeoutError < Error
    # @return [Deadline, nil] whose time it was; nil for a limit of the wait's own
    attr_reader :deadline

    # @param message [String, nil] nil: names the deadline
    # @param deadline [Deadline, nil]
    def initialize(message = nil, deadline = nil)
      super(message || ["execution expired", deadline].compact.join(": "))
      @deadline = deadline
    end
  end

  # Tasks wait for each other, and nothing else can happen: each would wait for ever.
  class DeadlockError < Error; end

  # The C extension is missing, ruled out or of no use here, and what was asked for exists only in
  # it.
  class ExtensionRequired < Error; end

  # The peer broke the protocol; has the status to answer with.
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

  # Raised in a task that is stopped, at its present wait. No StandardError, so that a `rescue =>
  # error` around some work does not swallow the cancellation. A `rescue` of it has to raise it
  # again.
  class Stop < Exception # rubocop:disable Lint/InheritException
    # @return [Deadline, nil] whose end stopped the task, if it was one
    attr_reader :deadline

    # @param message [String]
    # @param deadline [Deadline, nil]
    def initialize(message = "the task was stopped", deadline = nil)
      super(message)
      @deadline = deadline
    end

    # Whether it still has to leave the block in which it was raised.
    # @api private
    def cancels?
      true
    end
  end
end
