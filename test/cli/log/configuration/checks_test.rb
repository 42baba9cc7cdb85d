# frozen_string_literal: true

# What a single value may be.

require "test_helper"
require "gyre/cli/log/configuration"

class LogConfigurationChecksTest < Minitest::Test
  Checks = Gyre::CLI::Log::Configuration::Checks

  def check(name, value)
    kind = { Array => :list, Hash => :map }.fetch(value.class, :scalar)
    Checks.check(name, Gyre::CLI::Log::Configuration::Node.new(kind, value, 1, value.to_s))
  end

  def test_sizes
    assert_equal [500, 64 << 10, 10 << 20, 1 << 30, 2 << 10], [500, "64k", "10M", "1 GB", "2KiB"].map { |value| check(:bytes, value) }
    [0, "-1", 1.5, true, nil].each { |value| assert_raises(ArgumentError, value.inspect) { check(:bytes, value) } }
  end

  def test_periods
    periods = { "day" => 86_400, "Hour" => 3600, "2 hours" => 7200, "2days" => 172_800, 90 => 90, 1.5 => 1.5, "1 day" => 86_400 }
    assert_equal(periods, periods.to_h { |value, _| [value, check(:span, value)] })
    [0, -1, "fortnight", nil, ""].each { |value| assert_raises(ArgumentError, value.inspect) { check(:span, value) } }
  end

  def test_counts
    assert_equal [3, 3], [3, "3"].map { |value| check(:count, value) }
    [0, -1, 1.5, "x", nil].each { |value| assert_raises(ArgumentError, value.inspect) { check(:count, value) } }
  end

  def test_compressions
    assert_equal [:gzip, nil, nil, :gzip], ["GZIP", "none", false, true].map { |value| check(:compression, value) }
    error = assert_raises(ArgumentError) { check(:compression, "zstd") }
    assert_equal 'must be gzip or none, not "zstd"', error.message
  end

  def test_modes_and_owners
    assert_equal [0o640, 0o640, 0o600], ["0640", "640", "0600"].map { |value| check(:mode, value) }
    ["0440", "416", "888", "rw-r-----", "07777", ""].each { |value| assert_raises(ArgumentError, value) { check(:mode, value) } }
    assert_equal "root", check(:owner, "root")
    assert_raises(ArgumentError) { check(:owner, "no-such-user-here") }
  end

  def test_times_have_an_end
    [Float::INFINITY, Float::NAN, -1, "soon", nil].each { |value| assert_raises(ArgumentError, value.inspect) { check(:seconds, value) } }
  end
end
