# frozen_string_literal: true

# When a loop asks for a moment before it sleeps (ext/gyre/loop/busy_poll.h), by a plain C program;
# the loop does it for a lone memcached command (test/memcached/client_test.rb).
require "test_helper"
require "support/plain_c"
require "tmpdir"

class BusyPollTest < Minitest::Test
  def test_it_is_left_out_ever_longer_where_it_was_in_vain
    Dir.mktmpdir("gyre-busy-poll-") do |folder|
      program = GyreTest::PlainC.build("busy_poll_test", folder, GyreTest::PlainC::SANITIZED) or skip "no C compiler that can do it"
      output = run_program({ "LD_PRELOAD" => nil }, program, within_s: 60)
      assert output.status.success?, "#{output.out}#{output.err}"
    end
  end
end
