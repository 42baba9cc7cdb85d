# frozen_string_literal: true

# TCPSocket.new with a host name in a fiber of a Gyre::Scheduler, for Net::HTTP and most clients.
# Since Ruby 3.4 it tries IPv4 and IPv6 at once (RFC 8305), in C that stops all fibers during
# resolution. Tries addresses one by one here, like Ruby up to 3.3, by hooks; leaves calls with
# fast_fallback alone.

require "socket"

module Gyre
  class Scheduler
    module TCPSocketInFiber
      def initialize(*arguments, **options)
        options[:fast_fallback] = false if !options.key?(:fast_fallback) && Fiber.current_scheduler.is_a?(Scheduler)
        super
      end
    end

    TCPSocket.prepend(TCPSocketInFiber) if Socket.respond_to?(:tcp_fast_fallback)
  end
end
