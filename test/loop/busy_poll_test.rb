# frozen_string_literal: true

# When a loop asks for a moment before it sleeps (ext/gyre/loop/busy_poll.h), by a plain C program;
# the loop does it for a lone memcached command (test/memcached/client_test.rb).
require "test_helper"
require "support/plain_c"

class BusyPollTest < Minitest::Test
  include GyreTest::PlainC::Assertions

  def test_it_is_left_out_ever_longer_where_it_was_in_vain
    assert_plain_c("busy_poll_test", GyreTest::PlainC::SANITIZED)
  end
end
