# frozen_string_literal: true

# Work for the end of a turn (ext/gyre/loop/deferred.h), by a plain C program; what stands on it is
# tested with net/.
require "test_helper"
require "support/plain_c"

class DeferredTest < Minitest::Test
  include GyreTest::PlainC::Assertions

  def test_it_runs_once_at_the_end_of_the_turn_and_may_be_cancelled
    assert_plain_c("deferred_test", GyreTest::PlainC::PLAIN)
  end

  def test_the_same_with_sanitizers
    assert_plain_c("deferred_test", GyreTest::PlainC::SANITIZED)
  end
end
