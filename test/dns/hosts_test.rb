# frozen_string_literal: true

require "test_helper"
require "gyre/dns/configuration"

class DNSHostsTest < Minitest::Test
  TEXT = <<~TEXT.b
    # comment
    127.0.0.1 localhost localhost.localdomain
    ::1       LocalHost
    192.0.2.1 one One.Example # two
    192.0.2.1 one
    not-an-address three
    192.0.2.3
    fe80::1%eth0 four \xFF
  TEXT

  # Name => its addresses.
  CASES = { "localhost" => %w[127.0.0.1 ::1], "one.example" => %w[192.0.2.1], "one" => %w[192.0.2.1], "two" => nil, "three" => nil,
            "four" => %w[fe80::1%eth0], "" => nil }.freeze

  def test_a_name_has_the_addresses_of_its_lines
    hosts = Gyre::DNS.hosts(TEXT)
    CASES.each { |name, expected| expected ? assert_equal(expected, hosts[name], name) : assert_nil(hosts[name], name) }
  end
end
