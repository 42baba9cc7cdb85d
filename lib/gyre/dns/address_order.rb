# frozen_string_literal: true

# Sorts a host's addresses by RFC 6724, section 6, as glibc's getaddrinfo(3) does, without rules 3,
# 4, 7, which need netlink. Used by Gyre::DNS::Resolver. Finds source addresses by connect(2) over
# UDP, which sends nothing.

require "ipaddr"
require "socket"

module Gyre
  module DNS
    module AddressOrder
      # glibc's prefixes, labels and precedences; the first matching prefix counts.
      POLICIES = [["::1/128", 0, 50], ["2002::/16", 2, 30], ["::ffff:0:0/96", 4, 10], ["::/96", 3, 20], ["fec0::/10", 5, 40],
                  ["fc00::/7", 6, 40], ["2001::/32", 7, 40], ["::/0", 1, 40]]
                 .map { |prefix, *values| [IPAddr.new(prefix), *values].freeze }.freeze
      LINK, SITE, GLOBAL = 2, 5, 14
      SCOPES = [["fe80::/10", LINK], ["::1/128", LINK], ["fec0::/10", SITE], ["::ffff:127.0.0.0/104", LINK], ["::ffff:169.254.0.0/112", LINK]]
               .map { |prefix, scope| [IPAddr.new(prefix), scope].freeze }.freeze
      ANY_PORT = 9
      private_constant :POLICIES, :LINK, :SITE, :GLOBAL, :SCOPES, :ANY_PORT

      # An address with values to compare.
      Candidate = Struct.new(:ip, :source, :number) do
        def <=>(other)
          order = other.goodness <=> goodness
          order = other.common_bits <=> common_bits if order.zero? && ip.ipv4? == other.ip.ipv4?
          order.zero? ? number <=> other.number : order
        end

        # Values of rules 1, 2, 5, 6 and 8.
        def goodness
          @goodness ||= begin
            scope, label, precedence = AddressOrder.facts(ip)
            source_scope, source_label = AddressOrder.facts(source) if source
            [source ? 1 : 0, scope == source_scope ? 1 : 0, label == source_label ? 1 : 0, precedence, -scope]
          end
        end

        # Value of rule 9; for IPv4 only within a network of this machine.
        def common_bits
          @common_bits ||= if source.nil? || (ip.ipv4? && !AddressOrder.neighbours?(ip, source)) then 0
                           else (ip.ipv4? ? 32 : 128) - (ip.to_i ^ source.to_i).bit_length
                           end
        end
      end

      class << self
        def sort(addresses)
          return addresses if addresses.size < 2

          addresses.each_with_index.map { |address, index| Candidate.new(IPAddr.new(address), source(address), index) }
                   .sort.map { |candidate| addresses[candidate.number] }
        end

        # Returns scope, label, precedence.
        def facts(ip)
          ip = ip.ipv4_mapped if ip.ipv4?
          [SCOPES.find { |prefix, _| prefix.include?(ip) }&.last || GLOBAL, *POLICIES.find { |prefix, *| prefix.include?(ip) }.drop(1)]
        end

        def neighbours?(ip, source)
          own = Socket.getifaddrs.find { |each| each.addr&.ipv4? && each.addr.ip_address == source.to_s }
          own&.netmask ? IPAddr.new(own.addr.ip_address).mask(own.netmask.ip_address).include?(ip) : false
        end

        private

        def source(address)
          target = Addrinfo.udp(address, ANY_PORT)
          socket = Socket.new(target.afamily, :DGRAM)
          socket.connect(target)
          IPAddr.new(socket.local_address.ip_address.sub(/%.*/, ""))
        rescue SystemCallError
          nil # unreachable
        ensure
          socket&.close
        end
      end
    end
  end
end
