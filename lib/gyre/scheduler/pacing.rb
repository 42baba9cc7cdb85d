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

    # TCPSocket.new with a host name in a fiber of a Gyre::Scheduler, as Net::HTTP and most clients
    # call it. Since Ruby 3.4 it tries IPv4 and IPv6 at once (RFC 8305), and its C code stops all
    # fibers during resolution. This module tries the addresses one after another by hooks, like
    # Ruby up to 3.3. Does not change calls that pass fast_fallback.
    module TCPSocketInFiber
      def initialize(*arguments, **options)
        options[:fast_fallback] = false if !options.key?(:fast_fallback) && Fiber.current_scheduler.is_a?(Scheduler)
        super
      end
    end

    TCPSocket.prepend(TCPSocketInFiber) if Socket.respond_to?(:tcp_fast_fallback)
  end
end
