# frozen_string_literal: true

require "test_helper"
require "gyre/net/values"

class ValuesTest < Minitest::Test
  def test_a_value_is_converted_by_its_type
    assert_equal [65_536, 3600, "json", 8080], [values.check(:bytes, "64k"), values.check(:span, "hour"), values.check(%w[text json], :JSON),
                                                values.check(:port, "8080")]
  end

  def test_a_wrong_value_is_refused_with_what_is_expected_and_with_its_name
    assert_equal "keep: must be a whole number, 1 or more, not 0", refusal(:count, 0, name: "keep")
    assert_equal 'format: must be text or json, not "xml"', refusal(%w[text json], "xml", name: :format)
    assert_equal "must be text, not 1", refusal(:text, 1)
  end

  def test_messages_hold_no_password_and_no_long_text
    assert_equal '"redis://…@host/0"', values.shown("redis://user:password@host/0")
    assert_operator values.shown("x" * 500).size, :<=, 80
  end

  private

  def values = Gyre::Values

  def refusal(*arguments, **name) = assert_raises(ArgumentError) { values.check(*arguments, **name) }.message
end
