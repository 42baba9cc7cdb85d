# frozen_string_literal: true

# Keeps open sockets by client address, for address_limit. A socket removes itself when it ends.

require "ipaddr"

module Gyre
  class WebSocket
    module Addresses
      @sockets = {} # address => { socket => true }
      @lock = Thread::Mutex.new
      @swept = 64 # when there are more addresses, those without sockets are dropped

      class << self
        # Returns the Hash of the client's sockets.
        def sockets(env)
          @lock.synchronize do
            sweep if @sockets.size > @swept
            @sockets[network(env["REMOTE_ADDR"].to_s)] ||= {}.compare_by_identity
          end
        end

        # Reserves a place for a handshake until the request's end, when the socket itself counts.
        # Returns false if the address has `limit` sockets.
        def reserve(env, limit)
          sockets = self.sockets(env)
          place = Object.new
          return false unless @lock.synchronize { sockets.size < limit && sockets[place] = true }

          (env["rack.response_finished"] ||= []) << ->(*) { sockets.delete(place) }
        end

        private

        # Takes the first 64 bits of an IPv6 address: a customer has all addresses with these bits.
        def network(address)
          return address unless address.include?(":")

          ip = IPAddr.new(address[/\A[^%]*/])
          (ip.ipv4_mapped? ? ip.native : ip.mask(64)).to_s
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
