# frozen_string_literal: true

# Runs one measurement in a fresh process on the core of the measured.

require "English"
require "timeout"
require_relative "setup"

module Bench
  # A process that prints its result.
  module Child
    module_function

    def output(environment, *command, limit_s:)
      io = IO.popen([environment, "taskset", "-c", SERVER_CORE.to_s, *command, { err: %i[child out] }])
      text = Timeout.timeout(limit_s) { io.read }
      io.close
      return text if $CHILD_STATUS.success?

      raise Problem, text.strip.empty? ? "ended with #{$CHILD_STATUS}" : text
    rescue Timeout::Error
      raise Problem, "not finished within #{limit_s} s"
    ensure
      Process.kill(:KILL, io.pid) if io && !io.closed?
      io&.close
    end
  end
end
