# frozen_string_literal: true

# The reader of field lines on its own; what it accepts and refuses is in cases/header_lines.rb (see
# parser_test.rb).
require "test_helper"
require "oracle/http/fields"

class HTTP1FieldsTest < Minitest::Test
  def test_a_section_may_start_anywhere
    fields = HTTPOracle::Fields.new(4, 100, 10, ->(_name, _value) {})
    assert fields.read("junkA: b\r\n\r\nmore".b)
    assert_equal 12, fields.position
    assert_equal [%w[A b]], fields.pairs
  end

  def test_each_complete_line_is_reported_at_once
    told = []
    fields = HTTPOracle::Fields.new(0, 100, 10, ->(*pair) { told << pair })
    refute fields.read("A: b\r\nC:".b)
    assert_equal [%w[A b]], told
    refute fields.read("A: b\r\nC: \r\n".b)
    assert_equal [%w[A b], ["C", ""]], told
  end

  def test_what_a_line_means_may_refuse_it
    fields = HTTPOracle::Fields.new(0, 100, 10, ->(_name, _value) { raise Gyre::ProtocolError.new("no", 417) })
    error = assert_raises(Gyre::ProtocolError) { fields.read("A: b\r\n".b) }
    assert_equal 417, error.status
  end
end
