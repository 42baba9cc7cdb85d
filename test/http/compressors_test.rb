# frozen_string_literal: true

# Content codings: Gyre::HTTP::Compressors. br and zstd are tested where their gems are.

require "test_helper"
require "stringio"
require "gyre/http/compressors"

%w[brotli zstd-ruby].each do |name|
  require name
rescue LoadError
  nil # the test says so
end

class HTTPCompressorsTest < Minitest::Test
  Compressors = Gyre::HTTP::Compressors
  PARTS = ["one ", "", "two " * 20_000, "three"].freeze

  def test_gzip_gives_the_same_text_whole_and_in_parts
    both(Compressors::Gzip) { |bytes| Zlib.gunzip(bytes) }
  end

  def test_zstandard_gives_the_same_text_whole_and_in_parts
    skip "the gem zstd-ruby is not installed" unless defined?(Zstd)

    both(Compressors::Zstandard) { |bytes| Zstd.decompress(bytes) }
  end

  def test_brotli_gives_the_same_text_whole_and_in_parts
    skip "the gem brotli is not installed" unless defined?(Brotli)

    both(Compressors::Brotli) { |bytes| Brotli.inflate(bytes) }
  end

  def test_gzip_is_always_there
    assert_equal Compressors::Gzip, Compressors.available["gzip"]
    assert_equal defined?(Brotli) ? true : false, Compressors.available.key?("br")
  end

  def test_what_is_written_after_the_end_is_refused
    out = Struct.new(:text) { def write(string) = text << string }.new(+"")
    %i[close close_write].each { |name| out.define_singleton_method(name) { nil } }
    kept = nil
    body = lambda do |stream|
      kept = stream << "text"
      2.times { stream.close }
      assert_raises(IOError) { stream.write("more") }
    end
    Compressors::Call.new(body, Compressors::Gzip).call(out)
    assert_equal "text", Zlib.gunzip(out.text)
    assert_raises(IOError) { kept.write("more") }
  end

  def test_what_is_written_after_the_body_has_raised_is_refused
    kept = nil
    body = ->(stream) { (kept = stream) && raise("mine") }
    assert_raises(RuntimeError) { Compressors::Call.new(body, Compressors::Gzip).call(StringIO.new) }
    assert_raises(IOError) { kept.write("more") }
  end

  private

  def both(kind)
    assert_equal PARTS.join, yield(Compressors.whole(kind, PARTS)).force_encoding("UTF-8")
    body = Compressors::Parts.new(PARTS.each, kind)
    assert_equal PARTS.join, yield(body.to_enum.to_a.join).force_encoding("UTF-8")
    body.close
  end
end
