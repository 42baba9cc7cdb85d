# frozen_string_literal: true

# Waits for servers of other programs. Used by test/compare.
require "socket"

module GyreTest
  module Ports
    module_function

    # Returns once a server listens on the port of 127.0.0.1. Raises Errno::ECONNREFUSED later.
    def await(port, within_s:)
      until_s = Process.clock_gettime(Process::CLOCK_MONOTONIC) + within_s
      begin
        TCPSocket.open("127.0.0.1", port, &:close)
      rescue Errno::ECONNREFUSED
        raise if Process.clock_gettime(Process::CLOCK_MONOTONIC) > until_s

        sleep(0.02)
        retry
      end
    end
  end
end
