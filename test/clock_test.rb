# frozen_string_literal: true

# Gyre::Clock: seconds that only go forward.

require "test_helper"
require "gyre/clock"

class ClockTest < Minitest::Test
  def test_it_goes_forward_and_measures
    before = Gyre::Clock.now
    took = Gyre::Clock.measure { nil until Gyre::Clock.now > before }
    assert_kind_of Float, took
    assert_operator took, :<=, Gyre::Clock.now - before
  end
end
