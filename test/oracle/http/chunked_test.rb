# frozen_string_literal: true

# The chunked decoder's way of being called; what it accepts and refuses is in cases/bodies.rb (see
# parser_test.rb).
require "test_helper"
require "oracle/http/chunked"

class HTTP1ChunkedTest < Minitest::Test
  def setup
    @chunked = HTTPOracle::Chunked.new
  end

  def test_a_step_ends_with_each_slice_of_data
    bytes = "3\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n".b
    assert_equal :data, @chunked.step(bytes)
    assert_equal [3, 3, 0], [@chunked.data_offset, @chunked.data_length, @chunked.remaining]
    assert_equal :data, @chunked.step(bytes, @chunked.position)
    assert_equal "de", bytes.byteslice(@chunked.data_offset, @chunked.data_length)
    assert_equal :trailers, @chunked.step(bytes, @chunked.position)
    assert_equal "A: b\r\n\r\n", bytes.byteslice(@chunked.position, 100)
    assert_equal :trailers, @chunked.step(bytes, @chunked.position), "it stays there"
  end

  def test_a_chunk_may_come_in_pieces
    assert_equal :data, @chunked.step("a\r\n0123")
    assert_equal 6, @chunked.remaining
    assert_equal :more, @chunked.step("0123", 4)
    assert_equal :data, @chunked.step("456789\r\n")
    assert_equal 6, @chunked.position
    assert_equal :more, @chunked.step("\r\n")
    assert_equal 2, @chunked.position
  end

  def test_no_input_is_fine
    assert_equal :more, @chunked.step("")
    assert_equal 0, @chunked.position
  end

  def test_a_refusal_stays
    assert_equal :refused, @chunked.step("-1\r\n")
    assert_equal [400, "a chunk size that is not a number"], [@chunked.status, @chunked.reason]
    assert_equal :refused, @chunked.step("1\r\n")
  end
end
