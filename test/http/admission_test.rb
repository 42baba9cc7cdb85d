# frozen_string_literal: true

# Places and the queue before them (ext/gyre/http/admission.h), by a plain C program; with
# requests they are tested in test/contracts/.

require "test_helper"
require "support/plain_c"

class HTTPAdmissionTest < Minitest::Test
  include GyreTest::PlainC::Assertions

  def test_places_are_given_in_order_and_what_waits_too_long_is_refused
    assert_plain_c("http_admission_test", GyreTest::PlainC::PLAIN)
  end

  def test_the_same_with_sanitizers
    assert_plain_c("http_admission_test", GyreTest::PlainC::SANITIZED)
  end
end
