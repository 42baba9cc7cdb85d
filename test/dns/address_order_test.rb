# frozen_string_literal: true

# The order of addresses (Gyre::DNS::AddressOrder), by the examples of RFC 6724.
require "test_helper"
require "gyre/dns/address_order"

class DNSAddressOrderTest < Minitest::Test
  SETS = [[], ["127.0.0.1"], ["127.0.0.2", "127.0.0.1"], ["192.0.2.1", "::1", "2001:db8::1", "127.0.0.1", "10.0.0.1"]].freeze

  def test_addresses_stay_the_same_set
    SETS.each { |given| assert_equal given.sort, Gyre::DNS::AddressOrder.sort(given).sort }
  end

  # Source addresses, as the kernel would give them => destinations in their order. RFC 6724,
  # section 10.2, without rules 3, 4 and 7.
  ORDERS = {
    { "2001:db8:1::1" => "2001:db8:1::2", "198.51.100.121" => "198.51.100.117" } => %w[2001:db8:1::1 198.51.100.121],
    { "2001:db8:1::1" => nil, "198.51.100.121" => "198.51.100.117" } => %w[198.51.100.121 2001:db8:1::1],
    { "2001:db8:1::1" => "fe80::1", "198.51.100.121" => "198.51.100.117" } => %w[198.51.100.121 2001:db8:1::1],
    { "10.1.2.3" => "10.1.2.4", "2001:db8:1::1" => "2001:db8:1::2" } => %w[2001:db8:1::1 10.1.2.3],
    { "2001:db8:1::1" => "2001:db8:1::2", "fe80::1" => "fe80::2" } => %w[fe80::1 2001:db8:1::1],
    { "2001:db8:1::1" => "2001:db8:1::2", "2001:db8:3ffe::1" => "2001:db8:3f44::2" } => %w[2001:db8:1::1 2001:db8:3ffe::1],
    { "2002:c633:6401::1" => "2002:c633:6401::2", "2001:db8:1::1" => "2002:c633:6401::2" } => %w[2002:c633:6401::1 2001:db8:1::1],
    { "::1" => "::1", "127.0.0.1" => "127.0.0.1" } => %w[::1 127.0.0.1]
  }.freeze

  def test_the_order_of_rfc_6724
    order = Gyre::DNS::AddressOrder
    ORDERS.each do |sources, expected|
      [sources.keys, sources.keys.reverse].each do |given|
        numbers = given.to_h { |address| [address, sources[address]&.then { |source| order.number(Socket.sockaddr_in(9, source)) }] }
        assert_equal expected, order.order(numbers), sources.inspect
      end
    end
  end
end
