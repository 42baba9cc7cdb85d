# frozen_string_literal: true

# Reads the memory of processes, for metrics and limits of workers.

require "etc"

module Gyre
  # Memory of processes (Linux).
  module Memory
    PAGE_BYTES = Etc.sysconf(Etc::SC_PAGESIZE)
    private_constant :PAGE_BYTES

    # @return [Integer, nil] resident bytes with shared memory; nil where /proc is missing, or the
    #   process has ended
    def self.resident_bytes(pid = "self")
      Integer(File.read("/proc/#{pid}/statm").split[1]) * PAGE_BYTES
    rescue SystemCallError
      nil
    end
  end
end
