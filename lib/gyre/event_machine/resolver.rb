# frozen_string_literal: true

# EM::DNS::Resolver resolves host names by Gyre::DNS::Resolver. Results are Deferrables.
require "resolv"
require "gyre/dns/resolver"
require "gyre/event_machine/deferrable"

module Gyre
  module EventMachine
    # Name resolution.
    module DNS
      # Resolves host names without blocking the reactor.
      class Resolver
        class << self
          # @param hostname [String]
          # @return [DefaultDeferrable] succeeds with an Array of addresses, fails with a message
          # @raise [ArgumentError] the host name is not a String
          def resolve(hostname)
            raise ArgumentError, "a host name is a String, not #{hostname.class}" unless hostname.is_a?(String)

            request = DefaultDeferrable.new
            EventMachine.next_tick do
              addresses = resolver.addresses(hostname)
            rescue Gyre::DNS::NoAnswer, ArgumentError => error
              request.fail(error.message)
            else
              addresses.empty? ? request.fail("no address of #{hostname}") : request.succeed(addresses)
            end
            request
          end

          # @param addresses [Array<String>] name servers instead of the system's
          def nameservers=(addresses)
            @nameservers = addresses
            @loop = nil
          end

          # @return [Array<String>]
          def nameservers = @nameservers || Resolv::DNS::Config.default_config_hash.fetch(:nameserver, ["127.0.0.1"])

          # @return [String] any of them
          def nameserver = nameservers.sample

          # @return [Hash{String => Array<String>}] the addresses of the names in /etc/hosts
          def hosts = @hosts ||= Gyre::DNS.hosts(File.read("/etc/hosts"))

          # @return [nil] EventMachine has no socket of its own here
          def socket; end

          private

          # Each run of the reactor has its own resolver.
          def resolver
            return @resolver if @loop.equal?(EventMachine.reactor.loop)

            @loop = EventMachine.reactor.loop
            @resolver = Gyre::DNS::Resolver.new(*@nameservers)
          end
        end
      end
    end
  end
end
