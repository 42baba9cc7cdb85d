# frozen_string_literal: true

# Keeps the resolver of host names. The scheduler and Gyre.connect ask it before they ask the
# system. `require "gyre/dns"` sets it.

module Gyre
  module HostNames
    class << self
      # Returns addresses, [] for an unknown name, or nil if the caller should ask getaddrinfo.
      # Raises SocketError if the failure is temporary.
      def resolve(name) = resolver&.call(name)

      # Each Ractor has its own resolver, as resolvers cannot be shared.
      def resolver = Ractor.current[:gyre_host_names]

      def resolver=(resolver)
        Ractor.current[:gyre_host_names] = resolver
      end
    end
  end
end
