# frozen_string_literal: true

# TcpConnectTester: whether a TCP port accepts connections.

module Gyre
  module EventMachine
    module Protocols
      # Connects and disconnects.
      class TcpConnectTester < Connection
        include Deferrable

        # @param host [String]
        # @param port [Integer]
        # @return [Deferrable] succeeds with the seconds that it took, fails with them
        def self.test(host, port)
          EventMachine.connect(host, port, self)
        end

        # Remembers when it began.
        def post_init
          @began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        end

        # The port accepts connections.
        def connection_completed
          @connected = true
          succeed(elapsed)
          close_connection
        end

        # If there was no connection, the port accepts none.
        def unbind
          self.fail(elapsed) unless @connected
        end

        private

        def elapsed
          Process.clock_gettime(Process::CLOCK_MONOTONIC) - @began
        end
      end
    end
  end
end
