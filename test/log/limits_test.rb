# frozen_string_literal: true

require "test_helper"
require "gyre/log/limits"

class LogLimitsTest < Minitest::Test
  Limits = Gyre::Log::Limits

  def test_without_arguments_everything_has_its_default
    limits = Limits.new
    Limits::TABLE.each { |row| row.default.nil? ? assert_nil(limits.public_send(row.name)) : assert_equal(row.default, limits.public_send(row.name)) }
    assert_equal 8192, limits.frame_bytes_limit
    assert_predicate limits, :frozen?
  end

  def test_every_row_has_a_name_with_its_unit_and_a_meaning
    Limits::TABLE.each do |row|
      assert_match(/(?:_limit|_timeout_s)\z/, row.name)
      assert_equal row.unit == :seconds, row.name.end_with?("_s")
      assert_match(/\A[a-z].*[^.]\z/, row.meaning)
      row.check(row.default)
    end
  end

  def test_values_can_be_replaced
    limits = Limits.new(connections_limit: 5, authentication_timeout_s: nil, linger_timeout_s: 0.5)
    assert_equal [5, nil, 0.5], [limits.connections_limit, limits.authentication_timeout_s, limits.linger_timeout_s]
    changed = limits.with(tailers_limit: 3)
    assert_equal [5, 3], [changed.connections_limit, changed.tailers_limit]
    assert_equal 7, changed.with(linger_timeout_s: 7).to_h[:linger_timeout_s]
  end

  def test_an_unknown_name_is_an_argument_error_that_lists_the_known_ones
    error = assert_raises(ArgumentError) { Limits.new(connection_limit: 1) }
    assert_match(/unknown limit connection_limit; known: connections_limit, /, error.message)
  end

  def test_what_cannot_be_a_limit_is_an_argument_error_that_names_it
    [[:connections_limit, 0], [:connections_limit, nil], [:connections_limit, 1.5], [:memory_bytes_limit, "5"], [:idle_timeout_s, 0],
     [:idle_timeout_s, "1"], [:idle_timeout_s, Complex(1, 1)]].each do |name, value|
      error = assert_raises(ArgumentError) { Limits.new(name => value) }
      assert_match(/\A#{name} must be .*got #{Regexp.escape(value.inspect)}\z/, error.message)
    end
  end
end
