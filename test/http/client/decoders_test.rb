# frozen_string_literal: true

require "test_helper"
require "gyre/http/client/decoders"

%w[brotli zstd-ruby].each do |name|
  require name
rescue LoadError
  nil # the test says so
end

# Each coding whole, cut after each byte, in pieces and broken. br and zstd run where their gems
# are.
class HTTPClientDecodersTest < Minitest::Test
  Decoders = Gyre::HTTP::Client::Decoders
  TEXT = "hello " * 100

  def test_gzip
    contract("gzip", Zlib.gzip(TEXT))
  end

  def test_deflate_with_and_without_a_frame
    contract("deflate", Zlib::Deflate.deflate(TEXT))
    raw = Zlib::Deflate.new(nil, -Zlib::MAX_WBITS)
    assert_equal [TEXT, true], decoded("deflate", raw.deflate(TEXT, Zlib::FINISH))
    raw.close
  end

  def test_zstd
    skip "the gem zstd-ruby is not installed" unless defined?(Zstd)

    contract("zstd", Zstd.compress(TEXT))
    noise = Random.new(1).bytes(700_000)
    [noise, noise * 2, "end", ""].each { |text| contract_of_pieces("zstd", Zstd.compress(text), text) }
  end

  def test_br
    skip "the gem brotli is not installed" unless defined?(Brotli)

    contract("br", Brotli.deflate(TEXT))
    contract_of_pieces("br", Brotli.deflate("x" * 1_000_000), "x" * 1_000_000)
  end

  def test_several_members_of_gzip_are_one_body
    whole = Zlib.gzip("one ") + Zlib.gzip("") + Zlib.gzip("two")
    assert_equal ["one two", true], decoded("gzip", whole)
    assert_equal ["one two", true], decoded("gzip", *whole.chars)
    refute decoded("gzip", whole.byteslice(0..-2)).last
    assert_raises(Decoders::Damaged) { decoded("gzip", "#{whole}rest") }
  end

  def test_the_callers_own_error_passes
    assert_raises(Zlib::BufError) { Decoders.for("gzip").then { |decoder| decoder.decode(Zlib.gzip(TEXT)) { raise Zlib::BufError } } }
  end

  def test_other_codings_have_no_decoder
    assert_nil Decoders.for("compress")
  end

  private

  def contract(coding, bytes)
    contract_of_pieces(coding, bytes, TEXT)
    (1...bytes.bytesize).each { |at| refute cut_is_whole?(coding, bytes.byteslice(0, at)), "#{coding} cut after #{at} bytes" }
    assert_raises(Decoders::Damaged) { decoded(coding, "\xff\xfe\xfd, not compressed") }
  end

  def contract_of_pieces(coding, bytes, text)
    assert_equal [text.b, true], decoded(coding, bytes)
    assert_equal [text.b, true], decoded(coding, *bytes.scan(/.{1,40001}/mn))
  end

  def cut_is_whole?(coding, bytes)
    decoded(coding, bytes).last
  rescue Decoders::Damaged
    false
  end

  def decoded(coding, *pieces)
    decoder = Decoders.for(coding)
    text = "".b
    take = ->(piece) { text << piece }
    pieces.each { |piece| decoder.decode(piece.b, &take) }
    [text, decoder.finish(&take)]
  ensure
    decoder&.close
  end
end
