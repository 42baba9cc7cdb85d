# frozen_string_literal: true

# What may be written for outputs that are reached by an address.

require "test_helper"
require "gyre/log/output/remote"

class LogOutputRemoteTest < Minitest::Test
  Remote = Gyre::Log::Output::Remote

  def refusal(&block)
    assert_raises(ArgumentError, &block).message
  end

  def test_the_scheme_decides_the_type
    types = { "tcp://a:1" => "socket", "unix:///a" => "socket", "redis://a" => "redis", "rediss://a" => "redis", "redis+unix:///a" => "redis",
              "/a" => nil, "a:1" => nil }
    assert_equal(types, types.to_h { |target, _| [target, Remote.type(target)] })
    %w[udp:// http://a TCP://a:1 file:///a].each do |target|
      assert_match(/\Anothing can be written to #{target[/.*?:/]}/, refusal { Remote.type(target) })
    end
  end

  def test_analoggers_hosts_become_addresses
    { ["a", [1]] => "tcp://a:1", ["a:1", nil] => "tcp://a:1", ["/a", nil] => "unix:///a", ["tcp://a:1", nil] => "tcp://a:1" }
      .each { |arguments, address| assert_equal address, Remote.socket_address(*arguments) }
    [nil, [], ["x"]].each { |options| assert_match(/needs tcp/, refusal { Remote.socket_address("a", options) }) }
  end

  def test_an_endpoint_has_all_that_it_takes_to_connect
    assert_equal %w[tcp://a:1 tcp://[::1]:1 unix:///a],
                 %w[tcp://a:1 tcp://[::1]:1 unix:///a].map { |address| Remote.endpoint(address).to_s }
    %w[tcp:// tcp://a tcp://a:0 tcp://:1 tcp://*:1 tcp://a:65536 unix:// unix:/// udp://a:1].each do |address|
      assert_match(/is (?:no|not an) address/, refusal { Remote.endpoint(address) }, address)
    end
  end

  def test_a_database_shows_no_password_when_it_is_wrong
    database = Remote.database("redis://me:s%40cret@host:99/3")
    assert_equal ["tcp://host:99", "3", %w[me s@cret]], [database.endpoint.to_s, database.number, database.login]
    assert_equal ["tcp://127.0.0.1:6379", "unix:///a"], %w[redis:// redis+unix:///a].map { |url| Remote.database(url).endpoint.to_s }
    %w[redis://:secret@h:0 redis://:secret@h:65536 redis://:secret@h/x redis+unix:// redis+unix:/// redis://:secret@h:p].each do |url|
      refute_includes refusal { Remote.database(url) }, "secret"
    end
    tls = { ca: "/my ca.pem", verify: false }
    assert_equal ["ssl://h:6379", tls], Remote.database("rediss://h/1?ca=/my%20ca.pem&verify=false").endpoint.then { |each| [each.to_s, each.tls] }
    assert_equal [{}, nil], %w[rediss://h redis://h].map { |url| Remote.database(url).endpoint.tls }
    assert_match(/rediss:.* no option pem; there are: ca, cert, key, verify/, refusal { Remote.database("rediss://h?pem=a") })
    assert_match(/\A"unix:.*107 bytes/, refusal { Remote.database("redis+unix://:secret@/#{"a" * 107}") })
  end
end
