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

  private

  # The call is a fiber's; before each of its failures a thread, with a connection of its own,
  # succeeds at the same server.
  def check_limit(count, call)
    other = nil
    failures = Thread::Queue.new
    servers = Array.new(count) do
      scripted do |command, sound, _|
        next sound if command.key != "poison" || failures.size == 10

        (0..9).each { |index| other.get("key-#{index}") }
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
