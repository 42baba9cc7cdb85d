# frozen_string_literal: true

require "test_helper"
require "gyre/http/client/cookies"

# Which cookies are kept and sent: domains, public suffixes, limits. http/client/contract.rb has the
# rest.
class HTTPClientCookiesTest < Minitest::Test
  Origin = Struct.new(:host, :tls?)

  def test_one_site_does_not_displace_the_cookies_of_others
    cookies.store(origin("shop.test"), "/", ["cart=1"])
    lines = ->(host) { Array.new(10) { |name| "c#{name}=1; domain=hostile.test; path=/#{host}" } }
    400.times { |host| cookies.store(origin("a#{host}.hostile.test"), "/", lines[host]) }
    40.times { |site| cookies.store(origin("hostile#{site}.test"), "/", Array.new(200) { |name| "c#{name}=1" }) }
    assert_equal "cart=1", sent("shop.test")
    assert_operator sent("hostile39.test").split("; ").size, :<=, 150
    assert_operator cookies.instance_variable_get(:@sites).values.sum(&:size), :<=, 3000
  end

  def test_the_newest_cookies_of_a_site_stay
    cookies.store(origin("a.test"), "/", Array.new(200) { |name| "c#{name}=1" })
    assert_includes sent("a.test"), "c199=1"
    refute_includes sent("a.test").split("; "), "c0=1"
  end

  def test_a_domain_reaches_the_hosts_below_it
    cookies.store(origin("www.shop.test"), "/", ["a=1; domain=.shop.test", "b=2"])
    assert_equal ["a=1; b=2", "a=1", "a=1", nil], %w[www.shop.test shop.test deep.below.shop.test othershop.test].map { |host| sent(host) }
  end

  def test_a_domain_without_a_dot_takes_none_but_its_own
    cookies.store(origin("shop.test"), "/", ["a=1; domain=test", "b=1; domain=other.test"])
    assert_nil sent("shop.test")
    cookies.store(origin("localhost"), "/", ["a=1; domain=localhost"])
    assert_equal ["a=1", nil], [sent("localhost"), sent("www.localhost")]
  end

  def test_an_address_has_no_domains
    cookies.store(origin("127.0.0.1"), "/", ["a=1; domain=0.0.1", "b=2"])
    assert_equal ["b=2", nil], [sent("127.0.0.1"), sent("127.0.0.2")]
  end

  def test_public_suffixes_by_the_list_take_none
    skip "the package publicsuffix is not installed" unless File.exist?("/usr/share/publicsuffix/public_suffix_list.dat")

    { "shop.co.uk" => "co.uk", "a.b.kawasaki.jp" => "b.kawasaki.jp", "me.github.io" => "github.io" }.each do |host, domain|
      cookies.store(origin(host), "/", ["a=1; domain=#{domain}"])
      assert_nil sent(host), domain
    end
    { "www.shop.co.uk" => "shop.co.uk", "www.city.kawasaki.jp" => "city.kawasaki.jp" }.each do |host, domain|
      cookies.store(origin(host), "/", ["a=1; domain=#{domain}"])
      assert_equal "a=1", sent(domain)
    end
    cookies.store(origin("github.io"), "/", ["own=1; domain=github.io"])
    assert_equal ["own=1", nil], [sent("github.io"), sent("me.github.io")]
  end

  private

  def cookies = @cookies ||= Gyre::HTTP::Client::Cookies.new
  def origin(host) = Origin.new(host, false)
  def sent(host) = cookies.header(origin(host), "/")
end
