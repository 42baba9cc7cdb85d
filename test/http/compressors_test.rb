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

  private

  def both(kind)
    assert_equal PARTS.join, yield(Compressors.whole(kind, PARTS)).force_encoding("UTF-8")
    body = Compressors::Parts.new(PARTS.each, kind)
    assert_equal PARTS.join, yield(body.to_enum.to_a.join).force_encoding("UTF-8")
    body.close
  end
end
