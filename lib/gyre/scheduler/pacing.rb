# frozen_string_literal: true

# Calls on sockets that ask no scheduler as long as they succeed: a fiber that accepts, or receives
# datagrams, under a flood of them would never let others run. In a fiber of a Gyre::Scheduler each
# is preceded by Scheduler#pace, which yields when the present slice of time is over. Reads and
# writes do the same in the scheduler's own hooks.

require "socket"

module Gyre
  class Scheduler
    # Prepended to the classes of sockets. Written out, for a Ractor calls no method that a block
    # defines.
    module Pacing
      # In a fiber of a Gyre::Scheduler: lets others run, when it is their turn.
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

      # BasicSocket
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
