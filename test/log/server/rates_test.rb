# frozen_string_literal: true

# Messages a second: Gyre::Log::Rates.

require "test_helper"
require "gyre/log/server/hub"

class LogRatesTest < Minitest::Test
  def test_each_span_has_its_rate
    rates = Gyre::Log::Rates.new(0.0, 0)
    assert_equal({ 1 => 0.0, 10 => 0.0, 60 => 0.0 }, rates.to_h)
    rates.sample(1.0, 100)
    assert_equal({ 1 => 100.0, 10 => 100.0, 60 => 100.0 }, rates.to_h)
    2.upto(100) { |second| rates.sample(second.to_f, 100 * second) }
    101.upto(110) { |second| rates.sample(second.to_f, 10_000) }
    assert_equal({ 1 => 0.0, 10 => 0.0, 60 => 83.3 }, rates.to_h)
  end

  def test_samples_that_are_too_close_do_not_count
    rates = Gyre::Log::Rates.new(0.0, 0)
    rates.sample(0.1, 100)
    assert_equal 0.0, rates.to_h[1]
    rates.sample(2.0, 100)
    assert_equal 50.0, rates.to_h[1]
  end
end
