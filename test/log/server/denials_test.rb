# frozen_string_literal: true

# Wrong keys by address: which response comes at once, which late, and what is reported. Time is a
# parameter.

require "test_helper"
require "gyre/log/server/handshake"

class LogDenialsTest < Minitest::Test
  def setup
    @denials = Gyre::Log::Denials.new
  end

  def add(host, now_s = 0.0, times: 1)
    Array.new(times) { @denials.add(host, now_s) }.last
  end

  def test_some_get_their_response_at_once_and_further_ones_late_and_reported_once
    assert_equal [0, "the key is wrong"], add("192.0.2.1", times: 10)
    delay, report = add("192.0.2.1")
    assert_equal [2.0, true], [delay, report.include?("11 times within 60 s")]
    assert_equal [2.0, nil], add("192.0.2.1", 59.9)
    assert_equal [0, "the key is wrong"], add("192.0.2.2", 59.9), "another address"
    assert_equal [0, "the key is wrong"], add("192.0.2.1", 60.0), "a minute later"
  end

  def test_an_ipv6_network_is_one_address
    add("2001:db8::1", times: 10)
    assert_equal 2.0, add("2001:db8::2:3:4").first
    assert_equal 0, add("2001:db8:0:1::1").first
    add("fe80::1%eth0", times: 10)
    assert_equal 2.0, add("fe80::2%eth1").first
    assert_equal [0, 0], [add("no:address").first, add(nil).first]
  end

  def test_the_table_is_bounded_and_the_last_one_stays
    2000.times { |number| add("host#{number}", times: number == 1500 ? 10 : 1) }
    assert_equal 1000, @denials.instance_variable_get(:@counts).size
    assert_equal 2.0, add("host1500").first
    assert_equal 0, add("host1").first
  end
end
