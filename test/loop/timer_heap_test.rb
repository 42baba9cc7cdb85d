# frozen_string_literal: true

# The native loop's heap of timers (ext/gyre/loop/timers.c), by a plain C program.
require "test_helper"
require "support/plain_c"

class TimerHeapTest < Minitest::Test
  include GyreTest::PlainC::Assertions

  def test_ten_thousand_timers_fire_in_order
    assert_plain_c("timers_test", GyreTest::PlainC::PLAIN)
  end

  def test_the_same_with_sanitizers
    assert_plain_c("timers_test", GyreTest::PlainC::SANITIZED)
  end
end
