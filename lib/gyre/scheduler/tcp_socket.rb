# frozen_string_literal: true

# TCPSocket.new with a host name, in a fiber of a Gyre::Scheduler. Since Ruby 3.4 it tries IPv4 and
# IPv6 at once (RFC 8305), in C code that asks no scheduler and stops all fibers of the thread until
# the name is resolved. Tries one address after another here, like Ruby up to 3.3, by the hooks
# address_resolve and io_wait. Changes nothing elsewhere, or if the caller gives fast_fallback.
# Net::HTTP and most clients use it.

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
