# frozen_string_literal: true

require "test_helper"
require "gyre/http1/errors"

class HTTP1ErrorsTest < Minitest::Test
  def test_a_wrong_request_knows_its_status
    error = Gyre::HTTP1::RequestError.new("too long", 413)
    assert_equal [413, "too long"], [error.status, error.message]
    assert_kind_of Gyre::ProtocolError, error
  end

  def test_apps_can_rescue_them_as_what_ruby_has_for_it
    assert_operator Gyre::HTTP1::RequestCut, :<, EOFError
    assert_operator Gyre::HTTP1::WriteTimeout, :<, IOError
    assert_operator Gyre::HTTP1::LengthError, :<, StandardError
  end
end
