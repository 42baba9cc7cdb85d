# frozen_string_literal: true

# What a memcached client sends again after a failure, and how often: a call has its own limit, and
# what may have been carried out is repeated only where that changes nothing.

require "test_helper"
require "memcached/clients"

class MemcachedRetriesTest < Minitest::Test
  include MemcachedClients

  CALLS = {
    "get" => ->(client) { client.get("poison") },
    "set" => ->(client) { client.set("poison", "x") },
    "delete" => ->(client) { client.delete("poison") },
    "gat" => ->(client) { client.gat("poison", 60) },
    "get_multi" => ->(client) { client.get_multi("poison") },
    "delete_multi" => ->(client) { client.delete_multi(["poison"]) },
    "get_multi_cas" => ->(client) { client.get_multi_cas("poison") },
    "pipeline" => ->(client) { client.pipeline { |pipeline| pipeline.get("poison") } }
  }.freeze

  [1, 2].product(CALLS.to_a) do |count, (name, call)|
    define_method(:"test_#{name}_with_#{count}_servers_ends_although_other_calls_succeed_meanwhile") { check_limit(count, call) }
  end

  # Nothing succeeds meanwhile, so the first one counts as down after its second failure.
  def test_a_call_has_two_attempts_at_a_server_and_then_one_at_another
    CALLS.slice("get", "set", "delete", "gat").each do |name, call|
      servers = Array.new(2) { scripted { |command, sound, _| command.name == "version" ? sound : :close } }
      client = client(servers.map(&:address))
      assert_kind_of Gyre::Memcached::NetworkError, outcome { call.call(client) }
      assert_equal [1, 2], servers.map { |server| times(server, "poison") }.sort, name
    end
  end

  def test_a_server_that_counts_as_down_for_no_time_has_no_third_attempt
    CALLS.each do |name, call|
      server = scripted { |command, sound, _| command.name == "version" ? sound : :close }
      client = client(server.address, down_retry_delay: 0)
      assert_kind_of Gyre::Memcached::NetworkError, outcome { call.call(client) }
      assert_equal 2, times(server, "poison"), name
    end
  end

  def test_of_many_keys_only_the_one_that_failed_is_sent_again
    server = closing_at("b")
    found = client(server.address).get_multi_cas("a", "b", "c")
    assert_equal %w[a b c], found.keys
    assert_equal [1, 2], [times(server, "a"), times(server, "b")]
  end

  def test_of_many_keys_one_that_may_have_been_marked_is_not_sent_again
    server = closing_at("b")
    client = client(server.address)
    assert_raises(Gyre::Memcached::NetworkError) { client.get_multi_with_metadata("a", "b", req_options: { vivify_ttl: 30 }) }
    assert_equal [1, 1], [times(server, "a"), times(server, "b")]
  end

  def test_a_set_that_the_server_has_refused_is_not_sent_again
    server = scripted { |command, sound, _| command.key == "a" ? "CLIENT_ERROR bad data chunk\r\n" : sound }
    client = client(server.address)
    assert_raises(Gyre::Memcached::ProtocolError) { client.set("a", "x") }
    assert_equal 1, times(server, "a")
    assert_raises(Gyre::Memcached::ProtocolError) { client(server.address).set_multi("a" => "x") }
    assert_equal 2, times(server, "a")
  end

  # As behind a proxy that accepts for a memcached that is down.
  def test_a_server_that_never_replies_on_its_connections_counts_as_one_that_cannot_be_reached
    servers = Array.new(2) { |number| scripted { |_, sound, _| number.zero? ? :close : sound } }
    keys = Array.new(20) { |number| "key-#{number}" }
    two = client(servers.map(&:address))
    keys.each { |key| assert two.set(key, value_of(key)) }
    assert_equal keys.to_h { |key| [key, value_of(key)] }, two.get_multi(keys)
    one = client(servers[0].address)
    error = assert_raises(Gyre::Memcached::NoServerError) { one.get("a") }
    assert_match(/No server available: #{servers[0].address} is down: /, error.message)
    assert_equal({}, one.get_multi("a"))
  end

  def test_what_it_may_have_carried_out_is_not_sent_to_another
    servers = Array.new(2) { scripted { :close } }
    client = client(servers.map(&:address), socket_max_failures: 1)
    assert_raises(Gyre::Memcached::NetworkError) { client.incr("a") }
    assert_equal 1, servers.sum { |server| times(server, "a") }
  end

  # Logs show class and cause.
  def test_an_error_is_of_a_public_class_and_so_is_its_cause
    server = scripted { |_, sound, number| number == 1 ? sound : :close }
    client = client(server.address, socket_failure_delay: nil)
    client.set("a", "1")
    server.disconnect
    server.script = ->(*) { :close }
    errors = Array.new(2) { assert_raises(Failure) { client.get("a") } }
    assert_equal [Gyre::Memcached::NoServerError], errors.map(&:class).uniq
    broken = scripted { "HTTP/1.1 400 Bad Request\r\n\r\n" }
    errors << assert_raises(Gyre::Memcached::ProtocolError) { client(broken.address).get("a") }
    errors << assert_raises(Gyre::Memcached::ProtocolError) { client(broken.address).get_multi("a") }
    down = client("127.0.0.1:1", socket_failure_delay: nil)
    errors << assert_raises(Gyre::Memcached::NoServerError) { down.get("a") }
    assert_equal [nil, nil, nil, nil, Errno::ECONNREFUSED], errors.map { |error| error.cause&.class }
  end

  private

  # The call is a fiber's; before each of its failures a thread, with a connection of its own,
  # succeeds at each server: a failure in a row counts a server as down, and then another one is
  # tried as well.
  def check_limit(count, call)
    other = nil
    failures = Thread::Queue.new
    servers = Array.new(count) do
      scripted do |command, sound, _|
        next sound if command.key != "poison" || failures.size == 10

        other.version
        failures << 1
        :close
      end
    end
    other = client(servers.map(&:address))
    with_jobs(:fibers) { assert_kind_of Gyre::Memcached::NetworkError, outcome { call.call(other) } }
    assert_equal 2, failures.size
  end

  def closing_at(key)
    closed = false
    scripted(keys: %w[a b c]) { |command, sound, _| command.key == key && !closed ? closed = :close : sound }
  end

  def times(server, key)
    server.commands.count { |command| command.key == key }
  end
end
