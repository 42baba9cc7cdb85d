# frozen_string_literal: true

# EM::DNS::Resolver: host names to addresses as Deferrables, by Gyre::DNS::Resolver.
require "resolv"
require "gyre/dns/resolver"
require "gyre/event_machine/deferrable"

module Gyre
  module EventMachine
    # Name resolution.
    module DNS
      # Resolves host names without blocking the reactor.
      class Resolver
        # A resolution: succeeds with the addresses, fails with a message.
        class Request
          include Deferrable
        end

        class << self
          # @param hostname [String]
          # @return [Request] succeeds with an Array of addresses
          # @raise [ArgumentError] if it is not a String
          def resolve(hostname)
            raise ArgumentError, "a host name is a String, not #{hostname.class}" unless hostname.is_a?(String)

            request = Request.new
            EventMachine.next_tick { settle(request, hostname) }
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
          def hosts
            @hosts ||= File.foreach("/etc/hosts").with_object({}) do |line, hosts|
              address, *names = line.sub(/#.*/, "").split
              names.each { |name| (hosts[name] ||= []) << address }
            end
          end

          # @return [nil] EventMachine has no socket of its own here
          def socket; end

          private

          def settle(request, hostname)
            addresses = resolver.addresses(hostname)
            reason = "no address of #{hostname}" if addresses.empty?
          rescue Gyre::DNS::NoAnswer, ArgumentError => error
            reason = error.message
          ensure
            reason ? request.fail(reason) : request.succeed(addresses) if addresses || reason
          end

          # One per run of the reactor.
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
