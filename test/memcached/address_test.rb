# frozen_string_literal: true

# Gyre::Memcached::Address: the forms in which servers are given, and what is none.

require "test_helper"
require "gyre/memcached/address"

class MemcachedAddressTest < Minitest::Test
  Address = Gyre::Memcached::Address

  def test_hosts_ports_and_weights
    assert_equal ["localhost", 11_211, 1], fields("localhost")
    assert_equal ["localhost", 22_122, 1], fields("localhost:22122")
    assert_equal ["abc.example.com", 22_122, 5], fields("abc.example.com:22122:5")
    assert_equal ["::1", 11_211, 3], fields("[::1]:11211:3")
    assert_equal "::1:11211", Address.parse("[::1]").name
    assert_equal "localhost:11211", Address.parse("localhost").to_s
  end

  def test_unix_sockets
    socket = Address.parse("/run/memcached.sock:4")
    assert_equal ["/run/memcached.sock", 4, "/run/memcached.sock"], [socket.endpoint.path, socket.weight, socket.name]
    assert_equal "/run/memcached.sock", Address.parse("unix:///run/memcached.sock").endpoint.path
  end

  def test_a_uri_has_user_and_password_that_inspect_does_not_show
    address = Address.parse("memcached://me%40home:p+w%2F@example.com:33133")
    assert_equal ["example.com", 33_133, "me@home", "p+w/"], [address.endpoint.host, address.endpoint.port, address.user, address.password]
    refute_includes address.inspect, "p+w"
    assert_equal ["example.com", 11_211, 1], fields("memcached://example.com/")
    assert_equal ["%zz", "ü"], Address.parse("memcached://%25zz:%C3%BC@example.com").to_a.last(2)
    ["me:secret@:11211", "me:my/secret@host", "me:@secret @host"].each do |rest|
      error = assert_raises(ArgumentError) { Address.parse("memcached://#{rest}") }
      refute_includes error.message, "secret"
    end
  end

  def test_lists
    assert_equal %w[a:11211 b:1 c:2], Address.list("a, b:1,c:2,").map(&:name)
    assert_equal %w[a:11211 b:1 c:2], Address.list(["a,b:1", "c:2"]).map(&:name)
    assert_empty Address.list([])
  end

  def test_without_servers_the_environment_has_them_or_there_is_a_default
    before = ENV.delete("MEMCACHE_SERVERS")
    assert_equal %w[127.0.0.1:11211], Address.list(nil).map(&:name)
    ENV["MEMCACHE_SERVERS"] = " "
    assert_equal %w[127.0.0.1:11211], Address.list(nil).map(&:name)
    ENV["MEMCACHE_SERVERS"] = "x:1,y:2"
    assert_equal %w[x:1 y:2], Address.list(nil).map(&:name)
  ensure
    ENV["MEMCACHE_SERVERS"] = before
  end

  def test_what_is_none_is_an_argument_error
    ["a:b", "[]:1", "a:1:2:3", "/x:1:2", "a:0", "a:70000", "a:1:0", "unix://host/x", "memcached://", "a?backlog=1", "a b"].each do |text|
      assert_raises(ArgumentError, text) { Address.parse(text) }
    end
    [1, [1], { a: 1 }, [nil]].each { |servers| assert_raises(ArgumentError) { Address.list(servers) } }
  end

  private

  def fields(text) = Address.parse(text).then { |address| [address.endpoint.host, address.endpoint.port, address.weight] }
end
