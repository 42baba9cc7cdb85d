# frozen_string_literal: true

require "test_helper"
require "gyre/http/input"

class HTTPInputTest < Minitest::Test
  Input = Gyre::HTTP::Input

  # Gives pieces of a body, as a connection does.
  class Pieces
    def initialize(*pieces)
      @pieces = pieces.map(&:b)
    end

    def read_body(max_bytes)
      piece = @pieces.shift or return
      @pieces.unshift(piece.byteslice(max_bytes..-1)) if piece.bytesize > max_bytes
      piece.byteslice(0, max_bytes)
    end
  end

  def input(*pieces)
    Input.new(Pieces.new(*pieces))
  end

  def test_read_without_a_length_gives_all_that_is_left
    body = input("ab", "c")
    assert_equal "abc", body.read
    assert_equal "", body.read
    assert_equal Encoding::BINARY, body.read.encoding
  end

  def test_read_with_a_length_gives_so_much_and_less_only_at_the_end
    body = input("ab", "cde")
    assert_equal ["", "abc", "de", nil, nil, ""], [0, 3, 10, 1, 1, 0].map { |length| body.read(length) }
    assert_raises(ArgumentError) { body.read(-1) }
  end

  def test_read_fills_a_buffer
    buffer = +"old and long"
    body = input("abc")
    assert_same buffer, body.read(2, buffer)
    assert_equal "ab", buffer
    assert_same buffer, body.read(nil, buffer)
    assert_equal "c", buffer
    assert_nil body.read(1, buffer)
    assert_equal "", buffer
  end

  def test_readpartial_does_not_wait_for_more
    body = input("ab", "cde")
    assert_equal %w[ab cd e], [10, 2, 10].map { |length| body.readpartial(length) }
    assert_raises(EOFError) { body.readpartial(1) }
    buffer = +""
    input("x").readpartial(5, buffer)
    assert_equal "x", buffer
  end

  def test_gets_gives_lines_wherever_the_pieces_end
    body = input("on", "e\ntw", "o\n\n", "last")
    assert_equal ["one\n", "two\n", "\n", "last", nil, nil], Array.new(6) { body.gets }
  end

  def test_what_gets_read_too_much_is_not_lost
    body = input("one\ntwo three")
    assert_equal "one\n", body.gets
    assert_equal "two", body.read(3)
    assert_equal " th", body.readpartial(3)
    assert_equal "ree", body.read
  end

  def test_each_gives_lines
    lines = []
    body = input("a\nb\nc")
    assert_same body, body.each { |line| lines << line }
    assert_equal ["a\n", "b\n", "c"], lines
    assert_equal %w[x], input("x").each.to_a
  end

  def test_a_closed_input_cannot_be_read
    body = input("a")
    body.close
    [-> { body.read }, -> { body.gets }, -> { body.readpartial(1) }].each { |read| assert_raises(IOError, &read) }
  end

  def test_errors_of_the_connection_come_through
    broken = Object.new
    def broken.read_body(_max) = raise(EOFError, "cut")
    assert_raises(EOFError) { Input.new(broken).read }
  end

  def test_the_empty_input_is_at_its_end_forever
    empty = Input::EMPTY
    2.times do
      assert_equal ["", "", nil, nil], [empty.read, empty.read(0), empty.read(1), empty.gets]
      assert_raises(EOFError) { empty.readpartial(1) }
      empty.each { flunk }
      empty.close
    end
    buffer = +"old"
    assert_nil empty.read(5, buffer)
    assert_equal "", buffer
    assert_equal Encoding::BINARY, empty.read.encoding
    refute empty.read.frozen?
    assert empty.frozen?
  end
end
