# frozen_string_literal: true

require "test_helper"
require "gyre/log/limits"

# What every table of limits does stands in limits_test.rb.
class LogLimitsTest < Minitest::Test
  Limits = Gyre::Log::Limits

  def test_no_size_may_be_zero_and_only_silence_is_allowed_forever
    assert_empty Limits::TABLE.select { |row| row.range.begin.zero? }
    assert_equal [:idle_timeout_s], Limits::TABLE.select { |row| row.default.nil? }.map(&:name)
  end
end
