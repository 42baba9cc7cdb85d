# frozen_string_literal: true

# Which watches a turn of the loop calls (ext/gyre/loop/reports.c), by a plain C program; what
# stands on it is tested with http/ and memcached/.
require "test_helper"
require "support/plain_c"

class ReportsTest < Minitest::Test
  include GyreTest::PlainC::Assertions

  def test_a_watch_is_reported_again_once_and_not_when_it_has_ended
    assert_plain_c("reports_test", GyreTest::PlainC::PLAIN)
  end

  def test_the_same_with_sanitizers
    assert_plain_c("reports_test", GyreTest::PlainC::SANITIZED)
  end
end
