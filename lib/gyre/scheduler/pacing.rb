# frozen_string_literal: true

# Covers socket calls that ask no scheduler while they succeed: under a flood, a fiber that accepts
# or receives datagrams would never let others run. Calls Scheduler#pace before each in a fiber of a
# Gyre::Scheduler, which yields once the slice of time is over. The scheduler's own hooks pace reads
# and writes.

require "socket"

module Gyre
  class Scheduler
    # Prepended to sockets' classes. Written out, as a Ractor calls no method defined by a block.
    module Pacing
      # In a fiber of a Gyre::Scheduler: yields if due.
      def self.pace
        scheduler = Fiber.current_scheduler
        scheduler.pace if scheduler.is_a?(Scheduler)
      end

      # TCPServer, UNIXServer, Socket
      module Accept
        def accept(*)
          Pacing.pace
          super
        end
      end

      module Receive
        def recv(*)
          Pacing.pace
          super
        end
      end

      # IPSocket, UNIXSocket, Socket
      module ReceiveFrom
        def recvfrom(*)
          Pacing.pace
          super
        end
      end

      [TCPServer, Socket, *(UNIXServer if defined?(UNIXServer))].each { |sockets| sockets.prepend(Accept) }
      BasicSocket.prepend(Receive)
      [IPSocket, Socket, *(UNIXSocket if defined?(UNIXSocket))].each { |sockets| sockets.prepend(ReceiveFrom) }
    end
  end
end
