# frozen_string_literal: true

# Gyre::Memcached::Compressor: what comes back, and what is refused.

require "test_helper"
require "gyre/memcached/compressor"

class MemcachedCompressorTest < Minitest::Test
  FORMS = [Gyre::Memcached::ZLIB, Gyre::Memcached::GZIP].freeze
  TEXTS = ["", "a", "abc" * 5_000, Random.new(1).bytes(300_000)].freeze

  def test_all_of_it_comes_back
    FORMS.product(TEXTS) do |form, text|
      back = form.decompress(form.compress(text))
      assert_equal text.b, back
      assert_equal Encoding::BINARY, back.encoding
      assert_equal text.b, form.decompress(form.compress(text), max_bytes: text.bytesize)
    end
  end

  def test_the_forms_are_zlibs_and_gzips
    assert_equal "text" * 9, Zlib::Inflate.inflate(FORMS[0].compress("text" * 9))
    assert_equal "text" * 9, Zlib.gunzip(FORMS[1].compress("text" * 9))
  end

  def test_what_grows_beyond_the_limit_is_refused_without_the_memory_for_it
    bomb = FORMS[0].compress("\0" * 50_000_000)
    error = assert_raises(Gyre::Memcached::DeserializationError) { FORMS[0].decompress(bomb, max_bytes: 1_000_000) }
    assert_match(/longer than 1000000 bytes.*decompressed_max_bytes/, error.message)
  end

  def test_what_is_broken_or_cut_off_is_refused
    FORMS.each do |form|
      whole = form.compress("abc" * 5_000)
      ["", "no", whole[0..-2], whole[0, 10], whole.sub(/\A./n, "\xff".b)].each do |bytes|
        assert_raises(Gyre::Memcached::DeserializationError) { form.decompress(bytes) }
      end
    end
  end

  def test_what_follows_the_end_is_not_part_of_it
    assert_equal "text", FORMS[0].decompress("#{FORMS[0].compress("text")}more".b)
  end
end
