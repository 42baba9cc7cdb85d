# frozen_string_literal: true

# Calls Scheduler#pace before socket calls for which Ruby calls a hook only if they must wait. Under
# a flood, an accepting or receiving fiber would never let others run. For reads and writes, Ruby
# calls hooks in any case, and the hooks pace.

require "socket"

module Gyre
  class Scheduler
    # Prepended to the socket classes. Uses `def`, as Ractors call no methods defined by blocks.
    module Pacing
      def self.pace
        scheduler = Fiber.current_scheduler
        scheduler.pace if scheduler.is_a?(Scheduler)
      end

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
