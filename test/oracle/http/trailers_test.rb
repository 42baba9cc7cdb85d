# frozen_string_literal: true

# The trailer section's way of being called; what it accepts and refuses is in cases/bodies.rb (see
# parser_test.rb).
require "test_helper"
require "oracle/http/trailers"

class HTTP1TrailersTest < Minitest::Test
  def test_a_section_is_read_up_to_its_blank_line
    trailers = HTTPOracle::Trailers.new
    assert_equal 0, trailers.parse("A: b\r\nC: ".b)
    assert_equal 14, trailers.parse("A: b\r\nC: d\r\n\r\nGET".b)
    assert_equal 14, trailers.parse("A: b\r\nC: d\r\n\r\nGET".b)
    assert_equal [%w[A b], %w[C d]], trailers.fields
  end

  def test_a_section_may_be_empty
    trailers = HTTPOracle::Trailers.new
    assert_equal 2, trailers.parse("\r\n".b)
    assert_empty trailers.fields
  end

  def test_the_limits_are_those_of_trailers
    limits = Gyre::HTTP::Limits.new(trailer_bytes_limit: 8, header_bytes_limit: 100)
    assert_equal 8, HTTPOracle::Trailers.new(limits).parse("A: b\r\n\r\n".b)
    trailers = HTTPOracle::Trailers.new(limits)
    assert_equal(-1, trailers.parse("A: bc\r\n\r\n".b))
    assert_equal 431, trailers.status
  end

  def test_what_belongs_into_the_head_is_left_out
    trailers = HTTPOracle::Trailers.new
    assert_equal 21, trailers.parse("Host: a\r\nX-Sum: b\r\n\r\n".b)
    assert_equal [%w[X-Sum b]], trailers.fields
  end

  def test_a_verdict_stays
    trailers = HTTPOracle::Trailers.new
    assert_equal(-1, trailers.parse(" A: b\r\n\r\n".b))
    assert_equal(-1, trailers.parse("\r\n".b))
    assert_equal [400, "white space before the first header line"], [trailers.status, trailers.reason]
  end
end
