# frozen_string_literal: true

# Calls Scheduler#pace before socket calls that ask no scheduler while they succeed: under a flood,
# an accepting or receiving fiber would never let others run. Hooks pace reads and writes.

require "socket"

module Gyre
  class Scheduler
    # Prepended to sockets' classes. Written out, as Ractors call no methods defined by blocks.
    module Pacing
      # Yields if due.
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

    # TCPSocket.new with a host name in a fiber of a Gyre::Scheduler, for Net::HTTP and most
    # clients. Since Ruby 3.4 it tries IPv4 and IPv6 at once (RFC 8305), in C that stops all fibers
    # during resolution. Tries addresses one by one here, like Ruby up to 3.3, by hooks; leaves
    # calls with fast_fallback alone.
    module TCPSocketInFiber
      def initialize(*arguments, **options)
        options[:fast_fallback] = false if !options.key?(:fast_fallback) && Fiber.current_scheduler.is_a?(Scheduler)
        super
      end
    end

    TCPSocket.prepend(TCPSocketInFiber) if Socket.respond_to?(:tcp_fast_fallback)
  end
end
