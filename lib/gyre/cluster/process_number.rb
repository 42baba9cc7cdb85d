# frozen_string_literal: true

# Checks pids for Reaper, `gyre ctl` and pidfiles. Signals nothing.

module Gyre
  module Cluster
    module ProcessNumber
      module_function

      # True if any process has this pid.
      def taken?(pid)
        Process.kill(0, pid)
        true
      rescue Errno::EPERM
        true
      rescue Errno::ESRCH
        false
      end
    end
  end
end
