# frozen_string_literal: true

# What every table of limits does, on one of its own and on those that servers have.

require "test_helper"
require "gyre/http/limits"
require "gyre/log/limits"

class LimitsTest < Minitest::Test
  row = Gyre::Settings.method(:row)
  Limits = Gyre::Settings::Limits.of(
    row[:size_bytes_limit, :bytes, "a size", default: 10, status: 413, range: 0..],
    row[:things_limit, :count, "a count", default: 3],
    row[:wait_timeout_s, :timeout, "a time", default: 30]
  )
  TABLES = [Limits, Gyre::HTTP::Limits, Gyre::Log::Limits].freeze

  def test_without_arguments_everything_has_its_default
    TABLES.each do |limits|
      assert_equal limits::TABLE.defaults, limits.new.to_h
      assert_predicate limits.new, :frozen?
    end
    assert_equal [10, 3, 30], [Limits.new.size_bytes_limit, Limits.new.things_limit, Limits.new.wait_timeout_s]
  end

  def test_every_row_has_a_name_with_its_unit_and_a_meaning
    TABLES.flat_map { |limits| limits::TABLE.to_a }.each do |row|
      assert_match(/(?:_limit|_timeout_s)\z/, row.name)
      assert_equal [row.type.unit == :seconds, row.type.unit == :bytes], [row.name.end_with?("_s"), row.name.end_with?("_bytes_limit")]
      assert_match(/\A[a-zA-Z].*[^.]\z/, row.meaning)
      row.check(row.default)
    end
  end

  def test_values_can_be_replaced_also_as_texts
    limits = Limits.new(size_bytes_limit: 0, wait_timeout_s: nil)
    assert_equal [0, 3, nil], limits.to_h.values
    assert_equal [0, 5, 0.5], limits.with(things_limit: "5", wait_timeout_s: 0.5).to_h.values
    assert_equal [0, 3, nil], limits.to_h.values
    assert_instance_of Limits, limits.with
  end

  def test_an_unknown_name_is_an_argument_error_with_the_nearest
    assert_equal "thing_limit: unknown limit; did you mean things_limit?", assert_raises(ArgumentError) { Limits.new(thing_limit: 1) }.message
  end

  def test_what_cannot_be_a_limit_is_an_argument_error_that_names_it
    [[:size_bytes_limit, -1], [:size_bytes_limit, 1.5], [:things_limit, 0], [:things_limit, "x"], [:wait_timeout_s, 0], [:wait_timeout_s, -1],
     [:wait_timeout_s, "x"], [:wait_timeout_s, Complex(1, 1)]].each do |name, value|
      error = assert_raises(ArgumentError) { Limits.new(name => value) }
      assert_match(/\A#{name}: must be .*, not #{Regexp.escape(value.inspect)}\z/, error.message)
    end
  end
end
