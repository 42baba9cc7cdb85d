# frozen_string_literal: true

# The slot for a resolver of host names, asked before the system by the scheduler and Gyre.connect.
# `require "gyre/dns"` fills it.

module Gyre
  module HostNames
    class << self
      # Returns addresses, [] for an unknown name; nil: ask getaddrinfo.
      def resolve(name) = resolver&.call(name)

      # One per Ractor, as resolvers cannot be shared.
      if defined?(Ractor)
        def resolver = Ractor.current[:gyre_host_names]

        def resolver=(resolver)
          Ractor.current[:gyre_host_names] = resolver
        end
      else
        attr_accessor :resolver
      end
    end
  end
end
