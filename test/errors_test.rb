# frozen_string_literal: true

# What the exceptions are and say.

require "test_helper"
require "gyre/errors"

class ErrorsTest < Minitest::Test
  def test_errors_are_standard_errors_and_a_stop_is_not
    [Gyre::Error, Gyre::TimeoutError, Gyre::ProtocolError].each { |error| assert_operator error, :<, StandardError }
    assert_operator Gyre::Stop, :<, Exception
    refute_operator Gyre::Stop, :<=, StandardError
  end

  def test_a_protocol_error_has_the_status_to_respond_with
    assert_equal [400, "bad request"], Gyre::ProtocolError.new.then { |error| [error.status, error.message] }
    error = Gyre::ProtocolError.new("body too big", 413)
    assert_equal [413, "body too big"], [error.status, error.message]
  end

  def test_a_timeout_error_names_itself
    assert_equal "execution expired", Gyre::TimeoutError.new.message
    assert_equal "read: nothing came for 30 s", Gyre::TimeoutError.new("read: nothing came for 30 s").message
  end
end
