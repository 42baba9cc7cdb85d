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

  def test_zeros_behind_the_end_are_padding
    { "gzip" => Zlib.gzip(TEXT), "deflate" => Zlib::Deflate.deflate(TEXT) }.each do |coding, bytes|
      padded = bytes + ("\0" * 5000)
      assert_equal [TEXT, true], decoded(coding, padded), coding
      assert_equal [TEXT, true], decoded(coding, *padded.chars), coding
    end
  end

  def test_raw_deflate_is_found_however_it_is_cut
    raw = Zlib::Deflate.new(9, -Zlib::MAX_WBITS).deflate(TEXT, Zlib::FINISH)
    [1, 2, 5].each { |at| assert_equal [TEXT, true], decoded("deflate", raw[0, at], raw[at..]) }
    assert_equal [TEXT, true], decoded("deflate", *Zlib::Deflate.deflate(TEXT).chars)
    refute decoded("deflate", raw[0]).last
  end

  def test_each_flushed_piece_is_decoded_at_once
    { "gzip" => Zlib::Deflate.new(nil, 31), "deflate" => Zlib::Deflate.new }.each do |coding, deflate|
      decoder = Decoders.for(coding)
      3.times do |index|
        came = "".b
        decoder.decode(deflate.deflate("event #{index}\n", Zlib::SYNC_FLUSH)) { |piece| came << piece }
        assert_equal "event #{index}\n", came, coding
      end
      deflate.finish
    ensure
      [decoder, deflate].each(&:close)
    end
  end

  # Otherwise a server could make the client copy a piece once for each of 30,000 members.
  def test_the_work_for_empty_members_grows_with_their_bytes_only
    start = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    assert_equal ["", true], decoded("gzip", Zlib.gzip("") * 30_000)
    assert_operator Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - start, :<, 2
  end

  def test_a_list_of_codings_is_undone_in_reverse_order
    twice = Zlib.gzip(Zlib::Deflate.deflate(TEXT))
    ["deflate, gzip", "Deflate,GZIP", "aws-chunked, deflate, identity, gzip,"].each do |codings|
      assert_equal [TEXT, true], decoded(codings, twice)
      assert_equal [TEXT, true], decoded(codings, *twice.chars)
    end
    refute decoded("deflate, gzip", twice.byteslice(0..-2)).last
    refute decoded("deflate, gzip", Zlib.gzip(Zlib::Deflate.deflate(TEXT).byteslice(0..-2))).last
    ["gzip, compress", "gzip, gzip, gzip", "identity", ""].each { |codings| assert_nil Decoders.for(codings), codings }
  end

  def test_the_bytes_between_two_codings_are_counted
    decoder = Decoders.for("gzip, gzip")
    decoder.decode(Zlib.gzip(Zlib.gzip("") * 5000)) { flunk }
    assert_equal 100_000, decoder.passed
  ensure
    decoder&.close
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
