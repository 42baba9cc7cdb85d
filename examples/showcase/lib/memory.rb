# frozen_string_literal: true

# This process's memory, for panels that show it. Keeps nothing.

require "etc"

module Showcase
  module Memory
    # In pages on Linux (proc(5), statm); elsewhere nil.
    def self.resident_bytes
      File.read("/proc/self/statm").split[1].to_i * Etc.sysconf(Etc::SC_PAGESIZE)
    rescue Errno::ENOENT
      nil
    end
  end
end
