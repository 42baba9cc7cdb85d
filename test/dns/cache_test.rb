# frozen_string_literal: true

require "test_helper"
require "gyre/dns/cache"
require "gyre/testing"

class DNSCacheTest < Minitest::Test
  def test_an_answer_is_good_for_its_ttl
    Gyre::Testing.run do
      cache = Gyre::DNS::Cache.new
      cache.store(:question, :answer, 10)
      sleep 9.9
      assert_equal :answer, cache[:question]
      sleep 0.2
      assert_nil cache[:question]
      assert_equal 0, cache.size
    end
  end

  # [TTL, whether negative] => how long it stays with 5..60 s, and 1..20 s for negative answers.
  LIMITS = { [1, false] => 5, [30, false] => 30, [3600, false] => 60, [0, true] => 1, [3600, true] => 20 }.freeze

  def test_ttls_have_a_floor_and_a_ceiling
    LIMITS.each do |(ttl_s, negative), expected_s|
      Gyre::Testing.run do
        cache = Gyre::DNS::Cache.new(ttl_s: 5..60, negative_ttl_s: 1..20)
        cache.store(:question, :answer, ttl_s, negative: negative)
        sleep expected_s - 0.1
        assert_equal :answer, cache[:question]
        sleep 0.2
        assert_nil cache[:question]
      end
    end
  end

  def test_answers_are_bounded_in_bytes
    cache = Gyre::DNS::Cache.new(bytes_limit: 3000)
    %i[a b c].each { |key| cache.store(key, key, 60, 900) }
    assert_equal [nil, :b, :c], (%i[a b c].map { |key| cache[key] })
    cache.store(:b, :b, 60, 100)
    cache.store(:large, :large, 60, 3000)
    assert_equal({ cache_hits: 2, cache_misses: 1, cache_stale: 0, cache_entries: 2, cache_bytes: 2000 }, cache.stats)
  end

  def test_an_answer_that_has_ended_is_kept_for_failures_if_that_is_wanted
    Gyre::Testing.run do
      cache = Gyre::DNS::Cache.new(stale_s: 20)
      cache.store(:question, :answer, 10)
      sleep 15
      assert_nil cache[:question]
      assert_equal [:answer, 15], cache.find(:question, stale: true)
      sleep 20
      assert_nil cache.find(:question, stale: true)
      assert_equal 0, cache.bytes
    end
  end

  def test_an_answer_without_a_ttl_is_not_kept
    cache = Gyre::DNS::Cache.new(ttl_s: 5..60)
    cache.store(:question, :answer, nil)
    assert_nil cache[:question]
    cache = Gyre::DNS::Cache.new
    cache.store(:question, :answer, 0)
    assert_nil cache[:question]
  end

  def test_the_entry_unused_for_longest_leaves_a_full_cache
    cache = Gyre::DNS::Cache.new(entries_limit: 3)
    %i[a b c].each { |key| cache.store(key, key, 60) }
    cache[:a]
    cache.store(:d, :d, 60)
    assert_equal [:a, nil, :c, :d], (%i[a b c d].map { |key| cache[key] })
    assert_equal 3, cache.size
  end
end
