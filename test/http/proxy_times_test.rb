# frozen_string_literal: true

# X-Request-Start in each unit, and what is ignored.

require "test_helper"
require "gyre/http"

class HTTPProxyTimesTest < Minitest::Test
  def setup
    @times = Gyre::HTTP::ProxyTimes.new
  end

  def test_each_unit_counts
    [1, 1e3, 1e6, 1e9].product(["", "t="]).each do |unit, prefix|
      env = { "HTTP_X_REQUEST_START" => format("%s%d", prefix, (now - 2) * unit) }
      @times.add(env)
      assert_in_delta 2, env["gyre.proxy_s"], 1.5
    end
    snapshot = @times.snapshot
    assert_equal 8, snapshot["counts"].sum
    assert_in_delta 16, snapshot["sum_s"], 12
  end

  def test_the_first_of_several_proxies_counts
    @times.add(env = { "HTTP_X_REQUEST_START" => "t=#{now - 5}, t=#{now - 1}" })
    assert_in_delta 5, env["gyre.proxy_s"], 1.5
  end

  def test_a_clock_that_is_behind_counts_as_no_time
    @times.add(env = { "HTTP_X_REQUEST_START" => "t=#{now + 100}" })
    assert_equal 0.0, env["gyre.proxy_s"]
  end

  def test_other_values_are_ignored
    ["", "t=", "soon", "123", "t=1700000000 x", (now - 7200).to_s].each do |value|
      @times.add(env = { "HTTP_X_REQUEST_START" => value })
      refute env.key?("gyre.proxy_s"), value
    end
    assert_equal 0, @times.snapshot["counts"].sum
  end

  private

  def now = Process.clock_gettime(Process::CLOCK_REALTIME)
end
