# frozen_string_literal: true

# DNS messages in C without Ruby: pointers, labels, forms of data and hostile messages, plain and
# with sanitizers, at the edge of a guarded page.
require "test_helper"
require "support/plain_c"

class DNSWireTest < Minitest::Test
  include GyreTest::PlainC::Assertions

  def test_plain = assert_plain_c("dns_wire_test", GyreTest::PlainC::PLAIN)

  def test_sanitized = assert_plain_c("dns_wire_test", GyreTest::PlainC::SANITIZED)
end
