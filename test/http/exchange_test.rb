# frozen_string_literal: true

# What exchanges do is in test/contracts/http_contract_*_test.rb; this is what they inherit.

require "test_helper"
require "stringio"
require "http/fake_exchange"

class HTTPExchangeTest < Minitest::Test
  def test_called_without_an_argument_it_is_a_full_hijack
    exchange = GyreTest::FakeExchange.new
    assert_instance_of StringIO, exchange.call
    assert_equal [[:hijack]], exchange.calls
  end

  def test_called_with_headers_it_sends_early_hints
    exchange = GyreTest::FakeExchange.new
    assert_equal true, exchange.call({ "link" => "a" })
    assert_equal [[:write_interim, 103, { "link" => ["a"] }]], exchange.calls
    exchange.call(nil)
    assert_equal [:write_interim, 103, nil], exchange.calls.last, "nothing but a missing argument is a hijack"
  end

  def test_it_adds_no_instance_variable_to_a_possible_c_structure
    assert_empty Gyre::HTTP::Exchange.new.instance_variables
  end
end
