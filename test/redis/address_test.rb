# frozen_string_literal: true

# Gyre::Redis::Address: URLs of Redis servers.

require "test_helper"
require "gyre/redis/address"

class RedisAddressTest < Minitest::Test
  Address = Gyre::Redis::Address

  def test_a_url_shows_no_password_when_it_is_wrong
    address = Address.parse("redis://me:s%40cret@host:99/3")
    assert_equal ["tcp://host:99", "3", %w[me s@cret]], [address.endpoint.to_s, address.number, address.login]
    assert_equal ["tcp://127.0.0.1:6379", "unix:///a"], %w[redis:// redis+unix:///a].map { |url| Address.parse(url).endpoint.to_s }
    %w[redis://:secret@h:0 redis://:secret@h:65536 redis://:secret@h/x redis+unix:// redis+unix:/// redis://:secret@h:p].each do |url|
      refute_includes refusal(url), "secret"
    end
    tls = { ca: "/my ca.pem", verify: false }
    assert_equal ["ssl://h:6379", tls], Address.parse("rediss://h/1?ca=/my%20ca.pem&verify=false").endpoint.then { |each| [each.to_s, each.tls] }
    assert_equal [{}, nil], %w[rediss://h redis://h].map { |url| Address.parse(url).endpoint.tls }
    assert_match(/rediss:.* no option pem; there are: ca, cert, key, verify/, refusal("rediss://h?pem=a"))
    assert_match(/\A"unix:.*107 bytes/, refusal("redis+unix://:secret@/#{"a" * 107}"))
  end

  private

  def refusal(url) = assert_raises(ArgumentError) { Address.parse(url) }.message
end
