# frozen_string_literal: true

# Process 1 of a container: runs the command in a child, passes signals on, and takes the exit
# statuses of all processes that have lost their parent. (A server that did so itself would take
# those of the app's own children.) Called by CLI.start, before anything else is loaded.

module Gyre
  module CLI
    module First
      # A terminal sends some signals to the child as well.
      SIGNALS = %w[TERM USR1 USR2 TTIN TTOU CONT].freeze
      TERMINALS = %w[INT QUIT HUP WINCH].freeze

      module_function

      # Returns nil in the child, or if this is not process 1. Otherwise returns the child's exit
      # status.
      def run
        return if Process.pid != 1 || !Process.respond_to?(:fork)

        child = fork or return
        [*SIGNALS, *(TERMINALS unless $stdin.tty?)].each { |name| trap(name) { pass_on(name, child) } }
        TERMINALS.each { |name| trap(name) { } } if $stdin.tty?
        status = Process.wait2.last until status&.pid == child
        status.exitstatus || (status.termsig + 128)
      end

      def pass_on(name, child)
        Process.kill(name, child)
      rescue Errno::ESRCH
        nil # it has just ended
      end
    end
  end
end
