# frozen_string_literal: true

# What connections do is in test/contracts/http1_contract_*_test.rb; this is what they inherit.

require "test_helper"
require "stringio"
require "http/fake_connection"

class HTTP1ConnectionTest < Minitest::Test
  def test_called_without_an_argument_it_is_a_full_hijack
    connection = GyreTest::FakeConnection.new
    assert_instance_of StringIO, connection.call
    assert_equal [[:hijack]], connection.calls
  end

  def test_called_with_headers_it_sends_early_hints
    connection = GyreTest::FakeConnection.new
    assert_equal true, connection.call({ "link" => "a" })
    assert_equal [[:write_interim, 103, { "link" => "a" }]], connection.calls
    connection.call(nil)
    assert_equal [:write_interim, 103, nil], connection.calls.last, "nothing but a missing argument is a hijack"
  end

  def test_it_adds_no_instance_variable_to_what_may_be_a_c_structure
    assert_empty Gyre::HTTP::Connection.new.instance_variables
  end
end
