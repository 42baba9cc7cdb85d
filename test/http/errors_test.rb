# frozen_string_literal: true

require "test_helper"
require "gyre/http/errors"

class HTTPErrorsTest < Minitest::Test
  def test_a_wrong_request_has_its_status
    error = Gyre::HTTP::RequestError.new("too long", 413)
    assert_equal [413, "too long"], [error.status, error.message]
    assert_kind_of Gyre::ProtocolError, error
  end

  def test_apps_can_rescue_them_as_what_ruby_has_for_it
    assert_operator Gyre::HTTP::RequestCut, :<, EOFError
    assert_operator Gyre::HTTP::WriteTimeout, :<, IOError
    assert_operator Gyre::HTTP::LengthError, :<, StandardError
  end
end
