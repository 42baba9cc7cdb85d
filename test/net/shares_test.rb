# frozen_string_literal: true

# What processes that accept from the same sockets know of each other (ext/gyre/net/shares.h), by a
# plain C program; that connections follow it is tested with clusters.
require "test_helper"
require "support/plain_c"

class SharesTest < Minitest::Test
  include GyreTest::PlainC::Assertions

  def test_one_with_far_more_lets_others_go_first_as_long_as_they_stir
    assert_plain_c("shares_test", GyreTest::PlainC::PLAIN)
  end

  def test_the_same_with_sanitizers
    assert_plain_c("shares_test", GyreTest::PlainC::SANITIZED)
  end
end
