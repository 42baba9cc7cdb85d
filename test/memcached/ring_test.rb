# frozen_string_literal: true

# Gyre::Memcached::Ring: where keys are, compared with the dalli gem's, and what happens to those of
# a server that is not available.

require "test_helper"
require "support/dalli_gem"
require "gyre/memcached/ring"
require "gyre/memcached/address"

class MemcachedRingTest < Minitest::Test
  include GyreTest::DalliGem

  Place = Struct.new(:name, :weight, :alive, :asked) do
    def alive?
      self.asked = asked.to_i + 1
      alive
    end
  end

  SERVERS = {
    1 => %w[127.0.0.1:11211],
    2 => %w[127.0.0.1:11211 127.0.0.1:11212:3],
    5 => %w[cache-a.example.com:11211:2 cache-b.example.com:11211 10.0.0.3:22122:5 /run/memcached.sock:2 [::1]:11311],
    12 => Array.new(12) { |number| "10.1.0.#{number}:11211:#{1 + number % 3}" }
  }.freeze
  KEYS = Array.new(10_000) { |number| "user:#{number}:#{number * 7919 % 104_729}" }.freeze

  def test_dalli_places_10000_keys_alike
    need_dalli
    theirs = with_dalli([SERVERS, KEYS], <<~'RUBY')
      input[0].transform_values do |servers|
        ring = Dalli::Client.new(servers).send(:ring)
        ring.servers.each { |server| def server.alive? = true }
        input[1].map { |key| ring.server_for_key(key).name }
      end
    RUBY
    SERVERS.each { |count, servers| assert_equal theirs.fetch(count), places(ring(servers)), "#{count} servers" }
  end

  # The same without the gem: sums of the placement that Dalli 5.3.2 and 3.2.15 have.
  def test_the_placement_stays_unchanged
    sums = SERVERS.transform_values { |servers| Zlib.crc32(places(ring(servers)).join(" ")) }
    assert_equal({ 1 => 2_441_265_831, 2 => 2_272_020_950, 5 => 3_136_709_724, 12 => 590_428_287 }, sums)
  end

  def test_dalli_takes_the_same_detours
    need_dalli
    theirs = with_dalli([SERVERS.fetch(5), KEYS.first(1000)], <<~'RUBY')
      ring = Dalli::Client.new(input[0]).send(:ring)
      ring.servers.each_with_index { |server, index| server.define_singleton_method(:alive?) { index == 1 || index == 3 } }
      input[1].map { |key| (ring.server_for_key(key).name rescue nil) }
    RUBY
    ours = ring(SERVERS.fetch(5))
    ours.servers.each_with_index { |server, index| server.alive = [1, 3].include?(index) }
    assert_equal theirs, KEYS.first(1000).map { |key| ours.server_for(key).name rescue nil }
  end

  def test_without_failover_a_key_of_a_dead_server_has_none
    ring = ring(SERVERS.fetch(5), failover: false)
    key = KEYS.first
    home = ring.server_for(key)
    home.alive = false
    error = assert_raises(Gyre::Memcached::NoServerError) { ring.server_for(key) }
    assert_equal "No server available", error.message
    refute_includes ring.groups(KEYS).keys.map(&:name), home.name
  end

  def test_when_all_are_dead_there_is_no_server
    [1, 5].each do |count|
      ring = ring(SERVERS.fetch(count))
      ring.servers.each { |server| server.alive = false }
      assert_raises(Gyre::Memcached::NoServerError) { ring.server_for("key") }
      assert_empty ring.groups(%w[a b])
    end
    assert_raises(Gyre::Memcached::NoServerError) { Gyre::Memcached::Ring.new([]).server_for("key") }
  end

  def test_groups_have_each_key_with_its_server_and_ask_each_once
    ring = ring(SERVERS.fetch(12))
    groups = ring.groups(KEYS)
    assert_equal [1], ring.servers.map(&:asked).uniq
    assert_equal KEYS.sort, groups.values.flatten.sort
    groups.each { |server, keys| keys.first(20).each { |key| assert_same server, ring.server_for(key) } }
  end

  private

  def ring(servers, **options)
    places = Gyre::Memcached::Address.list(servers).map { |address| Place.new(address.name, address.weight, true) }
    Gyre::Memcached::Ring.new(places, **options)
  end

  def places(ring) = KEYS.map { |key| ring.server_for(key).name }
end
