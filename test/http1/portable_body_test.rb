# frozen_string_literal: true

require "test_helper"
require "gyre/http1/limits"
require "gyre/http1/parser"
require "gyre/http1/portable_body"
require "gyre/http1/portable_transport"

class HTTP1PortableBodyTest < Minitest::Test
  def setup
    @socket, @peer = UNIXSocket.pair
    @limits = Gyre::HTTP1::Limits.new(read_timeout_s: 0.02, body_bytes_limit: 10)
    @transport = Gyre::HTTP1::PortableTransport.new(@socket, @limits)
  end

  def teardown
    [@socket, @peer].each(&:close)
  end

  def body(field)
    head = Gyre::HTTP1::Parser.new
    head.parse("POST / HTTP/1.1\r\nhost: a\r\n#{field}\r\n\r\n".b)
    Gyre::HTTP1::PortableBody.for(head, @transport, @limits)
  end

  def test_a_body_of_a_known_length_ends_there
    body = body("content-length: 5")
    assert_equal [false, true, false], [body.finished?, body.longer_than?(4), body.longer_than?(5)]
    @peer.write("abcdefgh")
    assert_equal ["abc", "de", nil, nil], [body.read(3), body.read(3), body.read(3), body.read(3)]
    assert_equal [true, "fgh", {}], [body.finished?, @transport.bytes, body.trailers]
  end

  def test_chunks_end_with_their_trailers
    body = body("transfer-encoding: chunked")
    refute body.longer_than?(0)
    @peer.write("3\r\nabc\r\n2\r\nde\r\n0\r\nX-Y: 1\r\nx-y: 2\r\nz:\r\n\r\nnext")
    assert_equal ["ab", "c", "de", nil, nil], [body.read(2), body.read(2), body.read(9), body.read(9), body.read(9)]
    assert_equal [true, "next", { "x-y" => "1, 2", "z" => "" }], [body.finished?, @transport.bytes, body.trailers]
  end

  def test_no_body_is_none
    assert_nil body("a: b")
    assert_nil body("content-length: 0")
  end

  def test_each_error_is_raised_again_and_again
    { ["transfer-encoding: chunked", "x\r\n"] => 400, ["transfer-encoding: chunked", "b\r\n12345678901\r\n"] => 413, ["content-length: 5", ""] => 408,
      ["transfer-encoding: chunked", "0\r\nhost: a\r\n\r\n"] => 400 }.each do |(field, bytes), status|
      @transport.discard
      body = body(field)
      @peer.write(bytes)
      2.times { assert_equal status, assert_raises(Gyre::HTTP1::RequestError, bytes) { body.read(100) }.status }
      refute body.finished?
    end
  end

  def test_the_end_of_the_connection_is_an_end_of_file
    ["content-length: 5", "transfer-encoding: chunked"].each do |field|
      body = body(field)
      @peer.shutdown(:WR)
      assert_raises(Gyre::HTTP1::RequestCut) { body.read(100) }
    end
    body = body("content-length: 5")
    @socket.close
    assert_raises(Gyre::HTTP1::RequestCut) { body.read(100) }
  end
end
