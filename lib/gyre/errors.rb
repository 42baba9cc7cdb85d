# frozen_string_literal: true

# Exceptions of all layers; docs/tasks.md describes those of tasks. A caller's mistake raises
# ArgumentError instead, a network failure an Errno.

module Gyre
  # Superclass of Gyre's errors.
  class Error < StandardError; end

  # The time limit of with_deadline, with_timeout or a single wait has passed.
  class TimeoutError < Error
    # @return [Deadline, nil] nil if the limit was the wait's own
    attr_reader :deadline

    # @param message [String, nil] nil: names the deadline
    # @param deadline [Deadline, nil]
    def initialize(message = nil, deadline = nil)
      super(message || ["execution expired", deadline].compact.join(": "))
      @deadline = deadline
    end
  end

  # Tasks wait for each other, and nothing else can wake them.
  class DeadlockError < Error; end

  # A feature needs the C extension, which is missing or disabled.
  class ExtensionRequired < Error; end

  # The peer broke the protocol.
  class ProtocolError < Error
    # @return [Integer] status or code of the answer, such as HTTP's 400
    attr_reader :status

    # @param message [String] one line without the peer's secrets
    # @param status [Integer]
    def initialize(message = "bad request", status = 400)
      super(message)
      @status = status
    end
  end

  # The command line is wrong; the message explains the mistake. `gyre` exits with 2.
  class UsageError < Error; end

  # A server or command cannot begin or go on; the message tells what to do. `gyre` exits with 1.
  class StartError < Error; end

  # Raised in a stopped task at its wait. Not a StandardError, so that `rescue => error` does not
  # swallow it. Code that rescues a Stop must raise it again.
  class Stop < Exception # rubocop:disable Lint/InheritException
    # @return [Deadline, nil] that stopped the task
    attr_reader :deadline

    # @param message [String]
    # @param deadline [Deadline, nil]
    def initialize(message = "the task was stopped", deadline = nil)
      super(message)
      @deadline = deadline
    end

    # Always true: a timeout's error must not replace a Stop (Scheduler#cancellation_in).
    # @api private
    def cancels? = true
  end
end
