# frozen_string_literal: true

require "test_helper"
require "gyre/loop/portable"

class LoopLagTest < Minitest::Test
  def setup
    @lag = Gyre::Loop::Lag.new
  end

  def test_without_anything_all_is_zero
    assert_equal [0.0], @lag.to_h.values.uniq
  end

  def test_percentiles_are_at_most_a_quarter_too_much_and_never_too_little
    values = (1..1000).map { |number| number / 1000.0 }
    values.shuffle(random: Random.new(1)).each { |value| @lag.add(value) }
    [[0.5, 0.5], [0.9, 0.9], [0.99, 0.99], [1, 1.0]].each do |share, exact|
      assert_includes exact..(exact * 1.25), @lag.percentile(share)
    end
  end

  def test_the_longest_one_is_exact
    [0.001, 3.25, 0.5].each { |value| @lag.add(value) }
    assert_equal 3.25, @lag.to_h[:lag_max_s]
    assert_equal 3.25, @lag.percentile(0.99)
  end

  def test_nothing_is_too_short_or_too_long
    [0, 1e-9, 3e-9, 4e-9, -1.0, 1e6].each { |value| @lag.add(value) }
    assert_equal 1e6, @lag.percentile(1)
    assert_operator @lag.percentile(0.5), :<=, 5e-9
  end
end
