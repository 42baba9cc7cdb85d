# frozen_string_literal: true

# Gyre::Memcached::Expiry: which number is sent for a time to live.

require "test_helper"
require "support/dalli_gem"
require "gyre/memcached/options"

class MemcachedExpiryTest < Minitest::Test
  include GyreTest::DalliGem

  DAYS_30 = 30 * 86_400
  NOW = 1_700_000_000
  TTLS = [0, 1, -1, 60.9, "17", DAYS_30, DAYS_30 + 1, NOW - 1, NOW, NOW + 1, NOW + 100_000].freeze

  def test_seconds_up_to_30_days_stay_and_more_become_a_unix_time
    expiry = Gyre::Memcached::Expiry.new(clock: -> { NOW })
    assert_equal [0, 60, DAYS_30], [0, 60, DAYS_30].map { |ttl| expiry.seconds(ttl) }
    assert_equal NOW + DAYS_30 + 1, expiry.seconds(DAYS_30 + 1)
    assert_equal NOW + 1, expiry.seconds(NOW + 1)
  end

  def test_dalli_sends_the_same
    need_dalli
    ttls = TTLS.grep_v(NOW - 1).grep_v(NOW) # a Unix time of the past becomes one beyond 2038
    theirs = with_dalli(ttls, <<~RUBY)
      sanitizer = Dalli::Protocol::TtlSanitizer
      sanitizer.singleton_class.alias_method(:present, :current_timestamp) # so that it may be redefined
      def sanitizer.current_timestamp = #{NOW}
      input.map { |ttl| sanitizer.sanitize(ttl) }
    RUBY
    expiry = Gyre::Memcached::Expiry.new(clock: -> { NOW })
    assert_equal theirs, ttls.map { |ttl| expiry.seconds(ttl) }
  end

  # 0 would be for ever.
  def test_a_part_of_a_second_is_one
    expiry = Gyre::Memcached::Expiry.new(0.2)
    assert_equal [1, 1, 1, 0, 0], [expiry.seconds(nil), expiry.seconds(0.5), expiry.seconds(1.9), expiry.seconds(0.0), expiry.seconds(-0.5)]
  end

  def test_digits_are_seconds
    assert_equal [60, -1], [Gyre::Memcached::Expiry.new.seconds("60"), Gyre::Memcached::Expiry.new.seconds("-1")]
  end

  def test_without_one_the_default_counts
    assert_equal 0, Gyre::Memcached::Expiry.new.seconds(nil)
    assert_equal 300, Gyre::Memcached::Expiry.new(300).seconds(nil)
    assert_equal 300, Gyre::Memcached::Expiry.new("300").seconds(nil)
    assert_equal 5, Gyre::Memcached::Expiry.new(300).seconds(5)
  end

  def test_an_invalid_time_is_refused
    expiry = Gyre::Memcached::Expiry.new(clock: -> { NOW })
    ["abc", "0x10", "", "60s", { ttl: 60 }, Object.new, Float::NAN, -(2**31) - 1, 2**31, NOW, 2**40].each do |ttl|
      assert_raises(ArgumentError, ttl.inspect) { expiry.seconds(ttl) }
    end
    assert_raises(ArgumentError) { Gyre::Memcached::Expiry.new("soon") }
  end
end
