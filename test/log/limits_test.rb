# frozen_string_literal: true

require "test_helper"
require "gyre/log/limits"
require "gyre/log/wire"

# What every table of limits does stands in limits_test.rb.
class LogLimitsTest < Minitest::Test
  Limits = Gyre::Log::Limits

  def test_a_frame_may_be_as_long_as_analogger_takes_it
    assert_equal Gyre::Log::Wire::FRAME_BYTES_LIMIT, Limits.new.frame_bytes_limit
  end

  def test_no_size_may_be_zero_and_only_silence_is_allowed_for_ever
    assert_equal [1], Limits::TABLE.map(&:minimum).uniq
    assert_equal [:idle_timeout_s], Limits::TABLE.select { |row| row.default.nil? }.map(&:name)
  end
end
