# frozen_string_literal: true

require "test_helper"
require "support/engines"
require "http/serving"

# Whether this build has HTTP/2. What it does is in test/contracts and test/http/h2.
class H2Test < Minitest::Test
  def test_a_build_with_libnghttp2_has_http2
    skip "libnghttp2 was not found when the extension was built" unless Gyre::HTTP::H2.available?
    assert_includes Gyre::HTTP::H2::Exchange.ancestors, Gyre::HTTP::Exchange
  end
end
