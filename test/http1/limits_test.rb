# frozen_string_literal: true

require "test_helper"
require "gyre/http1/limits"

class HTTP1LimitsTest < Minitest::Test
  Limits = Gyre::HTTP1::Limits

  def test_without_arguments_everything_has_its_default
    limits = Limits.new
    Limits::TABLE.each { |row| assert_equal row.default, limits.public_send(row.name) }
    assert_equal 8192, limits.request_line_bytes_limit
    assert limits.frozen?
  end

  def test_every_row_has_a_name_with_its_unit_and_a_meaning
    Limits::TABLE.each do |row|
      assert_match(/(?:_limit|_timeout_s)\z/, row.name)
      assert_equal row.unit == :seconds, row.name.end_with?("_s")
      assert_match(/\A[a-z].*[^.]\z/, row.meaning)
      assert_includes [nil, 408, 413, 414, 431, 503], row.status
      row.check(row.default)
    end
  end

  def test_values_can_be_replaced
    limits = Limits.new(body_bytes_limit: 0, read_timeout_s: 0.5, write_timeout_s: nil)
    assert_equal [0, 0.5, nil, 30], [limits.body_bytes_limit, limits.read_timeout_s, limits.write_timeout_s, limits.head_timeout_s]
    changed = limits.with(head_timeout_s: 3)
    assert_equal [0, 3], [changed.body_bytes_limit, changed.head_timeout_s]
    assert_equal 30, limits.head_timeout_s
  end

  def test_an_unknown_name_is_an_argument_error_that_lists_the_known_ones
    error = assert_raises(ArgumentError) { Limits.new(body_limit: 1) }
    assert_match(/unknown limit body_limit; known: request_line_bytes_limit, /, error.message)
  end

  def test_what_cannot_be_a_limit_is_an_argument_error_that_names_it
    [[:body_bytes_limit, -1], [:body_bytes_limit, 1.5], [:body_bytes_limit, nil], [:header_count_limit, 0], [:connections_limit, "5"],
     [:read_timeout_s, 0], [:read_timeout_s, -1], [:read_timeout_s, "1"], [:read_timeout_s, Complex(1, 1)]].each do |name, value|
      error = assert_raises(ArgumentError) { Limits.new(name => value) }
      assert_match(/\A#{name} must be .*got #{Regexp.escape(value.inspect)}\z/, error.message)
    end
  end

  def test_it_becomes_a_hash
    assert_equal Limits::TABLE.map(&:name), Limits.new.to_h.keys
    assert_equal 7, Limits.new(linger_timeout_s: 7).to_h[:linger_timeout_s]
  end
end
