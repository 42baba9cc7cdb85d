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

  def test_suffixes_of_other_scripts_are_known_in_punycode
    skip "the package publicsuffix is not installed" unless File.exist?("/usr/share/publicsuffix/public_suffix_list.dat")

    cookies.store(origin("evil.xn--55qx5d.cn"), "/", ["a=1; domain=xn--55qx5d.cn", "b=1; domain=evil.xn--55qx5d.cn"])
    assert_nil sent("bank.xn--55qx5d.cn")
    assert_equal "b=1", sent("evil.xn--55qx5d.cn")
  end

  def test_names_in_punycode
    { "b\u00fccher" => "xn--bcher-kva", "\u043c\u043e\u0441\u043a\u0432\u0430" => "xn--80adxhks", "\u516c\u53f8" => "xn--55qx5d",
      "*.\u0b2d\u0b3e\u0b30\u0b24" => "*.xn--3hcrj9c", "com" => "com" }.each do |name, ascii|
      assert_equal ascii, Gyre::HTTP::Client::PublicSuffixes.send(:ascii, name)
    end
  end

  def test_name_and_value_may_have_4096_bytes
    [4095, 4096].each { |size| cookies.store(origin("a.test"), "/", ["s=#{"v" * size}; path=/; expires=Fri, 31 Dec 2038 23:59:59 GMT"]) }
    assert_equal 4097, sent("a.test").bytesize
    cookies.store(origin("b.test"), "/", ["a=1; path=/#{"x" * 1024}"])
    assert_equal "a=1", sent("b.test")
  end

  def test_dates_are_utc_in_each_form
    ["Wed, 09 Jun 2021 10:18:14 GMT", "Wednesday, 09-Jun-21 10:18:14", "Wed Jun  9 10:18:14 2021", "9 June 2021 10:18:14 +0900"].each do |text|
      assert_equal Time.utc(2021, 6, 9, 10, 18, 14), cookies.send(:date, text), text
    end
    ["", "soon", "Wed, 09 Jun 2021", "09 Jun 99999 10:18:14", "09 Jun 2021 24:00:00",
     "09 Jun 2021 #{"9" * 20}:00:00", "40 Jun 2021 10:00:00"].each do |text|
      assert_nil cookies.send(:date, text), text
    end
  end

  private

  def cookies = @cookies ||= Gyre::HTTP::Client::Cookies.new
  def origin(host) = Origin.new(host, false)
  def sent(host) = cookies.header(origin(host), "/")
end
