# frozen_string_literal: true

# How long ready work waits for the loop (ext/gyre/loop/lag.c), by a plain C program.
require "test_helper"
require "support/plain_c"

class LoopLagTest < Minitest::Test
  include GyreTest::PlainC::Assertions

  def test_percentiles_and_counts_of_waits
    assert_plain_c("lag_test", GyreTest::PlainC::SANITIZED)
  end
end
