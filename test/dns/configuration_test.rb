# frozen_string_literal: true

# What resolv.conf and nsswitch.conf say (Gyre::DNS::Configuration), as glibc reads them.
require "test_helper"
require "gyre/dns/configuration"

class DNSConfigurationTest < Minitest::Test
  # Text => what it sets.
  CASES = {
    "" => { servers: ["127.0.0.1"], search: ["example.org"], ndots: 1, timeout_s: 5, attempts: 2, rotate?: false, tcp?: false, exact?: true },
    "nameserver 192.0.2.1\n  nameserver 2001:db8::1 # the second\nnameserver fe80::1%eth0\nnameserver 192.0.2.4\n" =>
      { servers: ["192.0.2.1", "2001:db8::1", "fe80::1%eth0"] },
    "nameserver one.example\nnameserver\nnameserver 192.0.2.1" => { servers: ["192.0.2.1"] },
    "# nameserver 192.0.2.1\n;nameserver 192.0.2.2\n" => { servers: ["127.0.0.1"] },
    "search a.example b.example\n" => { search: %w[a.example b.example] },
    "search a.example b.example\ndomain c.example d.example" => { search: ["c.example"] },
    "domain c.example\nsearch a.example" => { search: ["a.example"] },
    "search" => { search: [] },
    "options ndots:2 timeout:3 attempts:4 rotate use-vc edns0 trust-ad" =>
      { ndots: 2, timeout_s: 3, attempts: 4, rotate?: true, tcp?: true, exact?: true },
    "options ndots:99 timeout:99 attempts:99" => { ndots: 15, timeout_s: 30, attempts: 5 },
    "options ndots:0 timeout:0 attempts:0" => { ndots: 0, timeout_s: 1, attempts: 1 },
    "options ndots:x timeout: attempts" => { ndots: 1, timeout_s: 5, attempts: 2 },
    "options no-aaaa" => { exact?: false },
    "sortlist 192.0.2.0/24" => { exact?: false },
    "nonsense here\n\xFF\xFE\nnameserver 192.0.2.1".b => { servers: ["192.0.2.1"] }
  }.freeze

  def test_resolv_conf_is_read_as_glibc_reads_it
    CASES.each do |text, expected|
      configuration = Gyre::DNS::Configuration.new(text, host_name: "host.example.org")
      expected.each do |name, value|
        found = name == :exact? ? configuration.exact?({}) : configuration.public_send(name)
        assert_equal value, found, "#{name} of #{text.inspect}"
      end
    end
  end

  def test_variables_of_the_resolver_make_it_inexact
    assert_equal false, Gyre::DNS::Configuration.new("").exact?({ "RES_OPTIONS" => "ndots:3" })
  end

  def test_a_host_without_a_domain_searches_none
    assert_equal [], Gyre::DNS::Configuration.new("", host_name: "host").search
  end

  # [text, name] => the names to try.
  CANDIDATES = {
    ["search a.example b.example", "host"] => %w[host.a.example host.b.example host],
    ["search a.example b.example", "www.host"] => %w[www.host www.host.a.example www.host.b.example],
    ["search a.example\noptions ndots:2", "www.host"] => %w[www.host.a.example www.host],
    ["search a.example", "host."] => %w[host],
    ["search", "host"] => %w[host],
    ["search .", "host"] => %w[host.] # the root
  }.freeze

  def test_search_domains_come_before_or_after_the_name_itself
    CANDIDATES.each do |(text, name), expected|
      found = Gyre::DNS::Configuration.new(text).candidates(name)
      assert_equal expected.map { |each| each.delete_suffix(".") }, found, "#{name} with #{text.inspect}"
    end
  end

  # nsswitch.conf => whether this library resolves the same.
  ORDERS = {
    "passwd: files\nhosts: files dns\n" => true,
    "hosts:\t\tfiles dns # as usual" => true,
    "hosts: files mdns4_minimal [NOTFOUND=return] dns" => false,
    "hosts: dns files" => false,
    "hosts: files dns myhostname" => false,
    "#hosts: files dns" => false,
    "" => false
  }.freeze

  def test_only_files_and_then_dns_is_the_plain_order
    ORDERS.each { |text, expected| assert_equal expected, Gyre::DNS::Configuration.plain_order?(text), text }
  end
end
