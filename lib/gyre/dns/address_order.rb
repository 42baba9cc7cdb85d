# frozen_string_literal: true

# Sorts a host's addresses by RFC 6724, section 6, like glibc's getaddrinfo(3). Omits rules 3, 4 and
# 7, which need netlink. Used by Gyre::DNS::Resolver. Finds source addresses by connect(2) over UDP,
# which sends nothing. Numbers are IPv6 addresses as Integers; IPv4 addresses are mapped.

require "ipaddr"
require "socket"

module Gyre
  module DNS
    module AddressOrder
      ANY_PORT = 9
      IPV4 = 0xffff
      GLOBAL = 14
      table = lambda do |rows|
        rows.map { |prefix, value| IPAddr.new(prefix).then { |ip| [ip.to_i >> (128 - ip.prefix), 128 - ip.prefix, value].freeze } }.freeze
      end
      # glibc's prefixes, each with its label and precedence. The first matching prefix counts.
      POLICIES = table.call("::1/128" => [0, 50], "2002::/16" => [2, 30], "::ffff:0:0/96" => [4, 10], "::/96" => [3, 20],
                            "fec0::/10" => [5, 40], "fc00::/7" => [6, 40], "2001::/32" => [7, 40], "::/0" => [1, 40])
      SCOPES = table.call("fe80::/10" => 2, "::1/128" => 2, "fec0::/10" => 5, "::ffff:127.0.0.0/104" => 2, "::ffff:169.254.0.0/112" => 2,
                          "::/0" => GLOBAL)
      private_constant :ANY_PORT, :IPV4, :GLOBAL, :POLICIES, :SCOPES

      # `ip` and `source` are the numbers of the address and of its source address; `index` is the
      # address's place in the given order; `goodness` has the values of rules 1, 2, 5, 6 and 8.
      Candidate = Struct.new(:address, :ip, :source, :index, :goodness) do
        # Compares common bits only within a family, because only addresses of the same family have
        # equal precedence.
        def <=>(other)
          (other.goodness <=> goodness).nonzero? || (other.common_bits <=> common_bits).nonzero? || index <=> other.index
        end

        # Value of rule 9. For IPv4 it applies only within a network of this machine.
        def common_bits
          @common_bits ||= if source.nil? || (AddressOrder.ipv4?(ip) && !AddressOrder.neighbours?(ip, source)) then 0
                           else 128 - (ip ^ source).bit_length
                           end
        end
      end

      class << self
        def sort(addresses) = addresses.size < 2 ? addresses : order(addresses.to_h { |address| [address, source(address)] })

        # `sources` maps each address to its source address's number; nil: it is unreachable.
        def order(sources)
          candidates = sources.each_with_index.map do |(address, source), index|
            ip = number(Socket.sockaddr_in(ANY_PORT, address))
            Candidate.new(address, ip, source, index, goodness(ip, source))
          end
          candidates.sort.map(&:address)
        end

        def number(sockaddr)
          return (IPV4 << 32) | sockaddr.unpack1("@4N") if sockaddr.bytesize == 16

          high, low = sockaddr.unpack("@8Q>2")
          (high << 64) | low
        end

        def ipv4?(number) = number >> 32 == IPV4

        def neighbours?(ip, source)
          own = Socket.getifaddrs.find { |each| each.addr&.ipv4? && number(each.addr.to_sockaddr) == source }
          own&.netmask ? ((ip ^ source) & number(own.netmask.to_sockaddr)).zero? : false
        end

        private

        def goodness(ip, source)
          scope, label, precedence = facts(ip)
          source_scope, source_label = facts(source) if source
          [source ? 1 : 0, scope == source_scope ? 1 : 0, label == source_label ? 1 : 0, precedence, -scope]
        end

        def facts(number) = [SCOPES, POLICIES].flat_map { |table| table.find { |prefix, shift, _| number >> shift == prefix }.last }

        def source(address)
          socket = Socket.new(address.include?(":") ? :INET6 : :INET, :DGRAM)
          socket.connect(Socket.sockaddr_in(ANY_PORT, address))
          number(socket.getsockname)
        rescue SystemCallError
          nil # unreachable
        ensure
          socket&.close
        end
      end
    end
  end
end
