# frozen_string_literal: true

# Request targets on their own; what is accepted and refused is in cases/request_lines.rb (see
# parser_test.rb).
require "test_helper"
require "oracle/http/target"

class HTTP1TargetTest < Minitest::Test
  def test_each_form_has_a_path
    assert_equal [:origin, "/a", "b?c", nil], HTTPOracle::Target.parse("GET", "/a?b?c".b).to_a
    assert_equal [:absolute, "/", nil], HTTPOracle::Target.parse("GET", "http://a".b).to_a[0, 3]
    assert_equal [:authority, "a:1", nil], HTTPOracle::Target.parse("CONNECT", "a:1".b).to_a[0, 3]
    assert_equal [:asterisk, "*", nil, nil], HTTPOracle::Target.parse("OPTIONS", "*".b).to_a
  end

  def test_an_absolute_target_and_that_of_connect_have_an_authority
    assert_equal "b:1", HTTPOracle::Target.parse("GET", "https://b:1/".b).authority.text
    assert_equal "1", HTTPOracle::Target.parse("CONNECT", "a:1".b).authority.port
  end

  def test_anything_else_is_a_bad_request
    [%w[GET *], %w[CONNECT /], %w[GET a], %w[GET http://]].each do |method, target|
      assert_equal 400, assert_raises(Gyre::ProtocolError) { HTTPOracle::Target.parse(method, target.b) }.status
    end
  end
end
