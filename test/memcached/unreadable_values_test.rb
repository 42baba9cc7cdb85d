# frozen_string_literal: true

# What a client yields beside a value that it cannot read.
require "test_helper"
require "gyre/memcached"
require "support/scripted_memcached"

class MemcachedUnreadableValuesTest < Minitest::Test
  def test_get_multi_yields_the_values_that_can_be_read_and_then_raises
    memcached = GyreTest::ScriptedMemcached.new
    %w[a b c].each { |key| memcached.store(key, key) }
    memcached.store("b", "not what a serializer makes", flags: 1)
    cache = Gyre::Memcached::Client.new(memcached.address)
    found = {}
    assert_raises(Gyre::Memcached::DeserializationError) { cache.get_multi("a", "b", "c") { |key, value| found[key] = value } }
    assert_equal({ "a" => "a", "c" => "c" }, found)
    assert_raises(Gyre::Memcached::DeserializationError) { cache.get_multi("a", "b", "c") }
  ensure
    [cache, memcached].compact.each(&:close)
  end
end
