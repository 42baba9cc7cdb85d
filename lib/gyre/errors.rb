# frozen_string_literal: true

# The exceptions of every layer, sorted by origin (docs/tasks.md has those of tasks). Excludes
# ArgumentError (a caller's mistake) and Errno (the network). Requires nothing.

module Gyre
  # The superclass of Gyre's own errors.
  class Error < StandardError; end

  # The time of a with_deadline, a with_timeout or another limited wait is over.
  class TimeoutError < Error
    # @return [Deadline, nil] nil for a wait's own limit
    attr_reader :deadline

    # @param message [String, nil] nil: names the deadline
    # @param deadline [Deadline, nil]
    def initialize(message = nil, deadline = nil)
      super(message || ["execution expired", deadline].compact.join(": "))
      @deadline = deadline
    end
  end

  # Tasks wait for each other, and nothing else could wake them.
  class DeadlockError < Error; end

  # The C extension is missing, disabled or useless here, and only it has the requested part.
  class ExtensionRequired < Error; end

  # The peer broke the protocol; has the status of the response.
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

  # A wrong command line; the message is for its author. `gyre` exits with 2.
  class UsageError < Error; end

  # A server or command cannot begin or go on; the message tells what to do, in several lines if
  # needed. `gyre` exits with 1.
  class StartError < Error; end

  # Raised in a stopped task, at its present wait. Not a StandardError, so that `rescue => error`
  # does not swallow the cancellation. A `rescue` must raise it again.
  class Stop < Exception # rubocop:disable Lint/InheritException
    # @return [Deadline, nil] whose end stopped the task, if any
    attr_reader :deadline

    # @param message [String]
    # @param deadline [Deadline, nil]
    def initialize(message = "the task was stopped", deadline = nil)
      super(message)
      @deadline = deadline
    end

    # True while it is still leaving the block in which it was raised.
    # @api private
    def cancels?
      true
    end
  end
end
