# frozen_string_literal: true

# The slot for a resolver of host names: asked by the scheduler and by Gyre.connect before the
# system. `require "gyre/dns"` fills it. Resolves nothing itself.

module Gyre
  module HostNames
    class << self
      # Returns the addresses, which are none for an unknown name; nil if getaddrinfo has to answer.
      def resolve(name) = resolver&.call(name)

      # Each Ractor has its own, as resolvers cannot be shared.
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
