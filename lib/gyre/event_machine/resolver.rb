# frozen_string_literal: true

# EM::DNS::Resolver: host names to addresses, as Deferrables. The system resolves, in a thread.
require "resolv"
require "socket"
require "gyre/event_machine/deferrable"

module Gyre
  module EventMachine
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
          # @raise [ArgumentError] if it is no String
          def resolve(hostname)
            raise ArgumentError, "a host name is a String, not #{hostname.class}" unless hostname.is_a?(String)

            request = Request.new
            addresses = -> { Addrinfo.getaddrinfo(hostname, nil, nil, :STREAM).map(&:ip_address).uniq }
            EventMachine.defer(addresses, request.method(:succeed), ->(error) { request.fail(error.message) })
            request
          end

          # @param addresses [Array<String>] for programs that read them; the system's are asked
          attr_writer :nameservers

          # @return [Array<String>]
          def nameservers
            @nameservers ||= Resolv::DNS::Config.default_config_hash.fetch(:nameserver, ["127.0.0.1"])
          end

          # @return [String] any of them
          def nameserver
            nameservers.sample
          end

          # @return [Hash{String => Array<String>}] the addresses of the names in /etc/hosts
          def hosts
            @hosts ||= File.foreach("/etc/hosts").with_object({}) do |line, hosts|
              address, *names = line.sub(/#.*/, "").split
              names.each { |name| (hosts[name] ||= []) << address }
            end
          end

          # @return [nil] there is no socket of EventMachine's own
          def socket; end
        end
      end
    end
  end
end
