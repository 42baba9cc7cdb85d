# frozen_string_literal: true

# The open sockets of each client address, for WebSocket.open's address_limit. Closes no socket;
# each one removes itself when it ends.

require "ipaddr"

module Gyre
  class WebSocket
    # @api private
    module Addresses
      @sockets = {} # address => { socket => true }
      @lock = Thread::Mutex.new
      @swept = 64 # addresses, after which those without sockets are dropped

      class << self
        # Returns the Hash to which sockets of the request's client add themselves.
        def sockets(env)
          @lock.synchronize do
            sweep if @sockets.size > @swept
            @sockets[network(env["REMOTE_ADDR"].to_s)] ||= {}.compare_by_identity
          end
        end

        private

        # For IPv6 the first 64 bits, as a provider gives one customer all addresses with the same
        # ones.
        def network(address)
          address.include?(":") ? IPAddr.new(address[/\A[^%]*/]).mask(64).to_s : address
        rescue IPAddr::Error
          address
        end

        def sweep
          @sockets.delete_if { |_, sockets| sockets.empty? }
          @swept = [2 * @sockets.size, 64].max
        end
      end
    end
  end
end
