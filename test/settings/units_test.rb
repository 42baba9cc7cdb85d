# frozen_string_literal: true

require "test_helper"
require "gyre/settings/units"

class UnitsTest < Minitest::Test
  Units = Gyre::Units

  def test_sizes
    { 500 => 500, "0" => 0, "64k" => 65_536, "10M" => 10 << 20, "100 MB" => 100 << 20, "1 GB" => 1 << 30, "2KiB" => 2048, "1t" => 1 << 40,
      " 7b " => 7 }.each { |text, bytes| assert_equal bytes, Units.bytes(text), text.inspect }
    wrong = ["-1", "", "k", "1.5", 1.5, "1 k B", "1x", true, nil, :much, "1\n2", "9999999T", 1 << 63]
    wrong.each { |text| assert_nil Units.bytes(text), text.inspect }
  end

  def test_a_size_as_text
    assert_equal %w[0 500 8K 64M 2G], [0, 500, 8192, 64 << 20, 2 << 30].map { |bytes| Units.size(bytes) } # 0 has no unit
  end

  def test_times
    { "minute" => 60, "Hour" => 3600, :day => 86_400, "1 day" => 86_400, "2days" => 172_800, "2 hours" => 7200, "week" => 604_800, 90 => 90,
      1.5 => 1.5, "90" => 90, "0.5" => 0.5, 0 => 0, "30 seconds" => 30,
      "0 days" => 0 }.each { |text, seconds| assert_equal seconds, Units.seconds(text), text.inspect }
    wrong = [-1, "-1", "fortnight", Float::INFINITY, Float::NAN, Complex(1, 1), "", nil, true, "0x10", 1e300, "99999999 weeks"]
    wrong.each { |text| assert_nil Units.seconds(text), text.inspect }
  end

  def test_counts
    assert_equal ["0 files", "1 file", "2 files"], [0, 1, 2].map { |number| Units.count(number, "file") }
    assert_equal ["1 reply is", "2,000 replies are"], ["1", "2,000"].map { |number| Units.count(number, "reply is", "replies are") }
  end

  def test_numbers
    assert_equal [7, 10, 1.5, 3, :other], ["7", "010", "1.5", 3, :other].map { |value| Units.number(value) }
    ["", "x", "1 2", "0x1p3"].each { |text| assert_nil Units.number(text), text.inspect }
  end
end
