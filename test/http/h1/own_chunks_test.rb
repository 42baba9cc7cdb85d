# frozen_string_literal: true

# Which bodies count as chunks of the app's own. (How they are sent: framing_test.rb.)

require "test_helper"
require "gyre/http/h1/own_chunks"

class HTTP1OwnChunksTest < Minitest::Test
  OwnChunks = Gyre::HTTP::H1::OwnChunks

  def test_whose_the_framing_is
    assert_nil coding({})
    assert_nil coding({ "transfer-encoding" => "identity" })
    assert_nil coding({ "transfer-encoding" => "chunked" }, status: 304)
    assert_equal "chunked", coding({ "transfer-encoding" => "Chunked" })
    assert_equal "gzip,chunked", coding({ "transfer-encoding" => ["gzip", " chunked"] })
    [{ "transfer-encoding" => "gzip" }, { "transfer-encoding" => "chunked, gzip" }, { "transfer-encoding" => "chunked", "content-length" => "1" }]
      .each { |headers| assert_raises(ArgumentError) { coding(headers) } }
  end

  def test_chunks_come_out_as_they_are
    assert_equal ["5\r\nhello\r\n", "0\r\n\r\n"], parts(["5\r\nhello\r\n", "0\r\n\r\n"])
    assert_equal ["0;a=b\r\nSum: 1\r\n\r\n"], parts(["", "0;a=b\r\nSum: 1\r\n\r\n"])
    assert_equal ["1", "0;x\r\n…"], parts(["", "1", "0;x\r\n…"].each)
  end

  def test_bodies_that_begin_with_no_chunk_are_refused
    [[], ["hello"], ["hello"].each, [""].each, ->(stream) { stream }].each do |body|
      assert_raises(ArgumentError) { parts(body) }
    end
  end

  def test_the_content_of_chunks_that_are_cut_anywhere
    whole = "5;a=b\r\nhello\r\n6\r\n world\r\n0\r\nSum: 1\r\n\r\n"
    (1...whole.bytesize).each do |at|
      assert_equal "hello world", content([whole.byteslice(0, at), whole.byteslice(at..-1)]).join, at
    end
    assert_raises(ArgumentError) { content(["5\r\nhello\r\n"]) }
    assert_raises(ArgumentError) { OwnChunks.new("gzip,chunked", [whole]).each_content { |part| part } }
  end

  private

  def content(parts) = [].tap { |content| OwnChunks.new("chunked", parts).each_content { |part| content << part } }

  def coding(headers, status: 200)
    OwnChunks.coding(headers, status)
  end

  def parts(body)
    [].tap { |parts| OwnChunks.new("chunked", body).each { |part| parts << part } }
  end
end
