# frozen_string_literal: true

# Gyre::Memcached::Result: what it makes of an item's metadata.

require "test_helper"
require "gyre/memcached/result"

class MemcachedResultTest < Minitest::Test
  Result = Gyre::Memcached::Result

  def test_an_item
    result = Result.new(value: 1, cas: 5, miss: false, stale: true, won_recache: true, hit_before: true, last_access: 3, ttl_remaining: -1)
    assert_equal [1, 5, true, 3, -1], [result.value, result.cas, result.hit_before, result.last_access, result.ttl_remaining]
    assert_equal [true, false, true, true, false], [result.hit?, result.miss?, result.stale?, result.won_recache?, result.lost_recache?]
  end

  def test_a_missing_one
    result = Result.new(value: nil, cas: 0, miss: true, lost_recache: true)
    assert_equal [true, false, false, false, true], [result.miss?, result.hit?, result.stale?, result.won_recache?, result.lost_recache?]
    assert_nil result.hit_before
  end
end
