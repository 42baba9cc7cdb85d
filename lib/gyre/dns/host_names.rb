# frozen_string_literal: true

# Installs the resolver in Gyre::HostNames, so that the scheduler and Gyre.connect need no
# getaddrinfo in a thread. Installed by `require "gyre/dns"`. Names that only the system can resolve
# are left to the system.

require "gyre/dns/resolver"

module Gyre
  module DNS
    # Names that Gyre resolves: :exact (those for which the system gives the same), :always (all
    # valid names), :never (none).
    HOST_NAMES = %i[exact always never].freeze

    class << self
      # @return [Symbol] one of {HOST_NAMES}
      def host_names = HostNames.resolver&.mode || :never

      # @param mode [Symbol] one of {HOST_NAMES}, for this Ractor
      # @raise [ArgumentError]
      def host_names=(mode)
        raise ArgumentError, "host_names must be one of #{HOST_NAMES.inspect}, not #{mode.inspect}" unless HOST_NAMES.include?(mode)

        HostNames.resolver = mode == :never ? nil : SystemNames.new(mode)
      end
    end

    # No name server answered, as getaddrinfo reports it. A later attempt may succeed.
    class TemporaryFailure < (defined?(Socket::ResolutionError) ? Socket::ResolutionError : SocketError)
      # @return [Integer]
      def error_code = Socket::EAI_AGAIN
    end

    # @api private
    class SystemNames
      # Matches names whose last label is not a number; other names may be old forms of addresses.
      NAME = /\A(?:[a-z\d_](?:[a-z\d_-]*[a-z\d_])?\.)*(?!\d+\.?\z|0x\h*\.?\z)[a-z\d](?:[a-z\d-]*[a-z\d])?\.?\z/i.freeze
      private_constant :NAME

      attr_reader :mode

      def initialize(mode, resolver: Resolver.new, nsswitch: "/etc/nsswitch.conf", gai: "/etc/gai.conf")
        @mode = mode
        @resolver = resolver
        @plain = WatchedFile.new(nsswitch) { |text| Configuration.plain_order?(text) }
        @default_order = WatchedFile.new(gai) { |text| !text.match?(/^\s*[a-z]/) }
      end

      def call(name)
        return unless name.match?(NAME) && (@mode == :always || exact?(name))

        @resolver.addresses(name)
      rescue NoAnswer => error
        raise TemporaryFailure, "getaddrinfo: Temporary failure in name resolution (#{error.message})"
      rescue ArgumentError
        []
      end

      private

      # True if getaddrinfo would give the same addresses. Leaves "localhost" to the system, because
      # systems resolve it differently if the hosts file does not have it, and names that a search
      # domain makes invalid, as glibc may end its search there.
      def exact?(name)
        configuration = @resolver.configuration
        @plain.value && @default_order.value && configuration.exact? && configuration.candidates(name).all? { |each| DNS.name?(each) } &&
          !name.match?(/(?:\A|\.)localhost\.?\z/i)
      end
    end
  end
end
