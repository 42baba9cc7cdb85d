# frozen_string_literal: true

# What header lines mean, on its own; what is accepted and refused is in cases/framing.rb and
# cases/hosts.rb (see parser_test.rb).
require "test_helper"
require "oracle/http/framing"

class HTTP1FramingTest < Minitest::Test
  def test_no_header_means_no_body_and_a_connection_that_stays
    framing = HTTPOracle::Framing.new(1)
    assert_nil framing.content_length
    assert framing.keep_alive?
    refute framing.chunked? || framing.upgrade? || framing.expect_continue?
    refute HTTPOracle::Framing.new(0).keep_alive?
  end

  def test_lines_add_up
    framing = HTTPOracle::Framing.new(1)
    { "Host" => "a:1", "expect" => "100-continue", "CONTENT-LENGTH" => "5", "X" => "y",
      "connection" => "close" }.each { |line| framing.call(*line) }
    framing.conclude
    assert_equal "1", framing.host.port
    assert_equal 5, framing.content_length
    assert framing.expect_continue?
    refute framing.keep_alive?
  end

  def test_only_the_end_of_the_head_shows_that_host_is_missing
    framing = HTTPOracle::Framing.new(1)
    assert_equal 400, assert_raises(Gyre::ProtocolError) { framing.conclude }.status
    assert_nil HTTPOracle::Framing.new(0).conclude
  end
end
