# frozen_string_literal: true

# Gyre::Memcached::Values: bytes and flags, in both directions with the dalli gem's.

require "test_helper"
require "json"
require "support/dalli_gem"
require "gyre/memcached/options"

class MemcachedValuesTest < Minitest::Test
  include GyreTest::DalliGem

  OBJECTS = [nil, 1, "text", "ü", "\xff".b, [1, "two", :three], { a: { "b" => 2.5 } }, "long " * 2_000, ["x" * 9_000], 1..3].freeze
  # Options of Dalli's and the same ones of ours.
  MARSHAL = { serializer: Marshal, string_fastpath: false }.freeze

  def test_dalli_stores_the_same_bytes_with_the_same_flags
    need_dalli
    assert_equal in_dalli(OBJECTS, "input.map { |object| marshaller.store('key', object) }"),
      OBJECTS.map { |object| made(**MARSHAL).dump("key", object) }
  end

  def test_each_reads_what_the_other_has_stored
    need_dalli
    ours = made(**MARSHAL)
    stored = OBJECTS.map { |object| ours.dump("key", object) }
    assert_equal OBJECTS, in_dalli(stored, "input.map { |bytes, flags| marshaller.retrieve(bytes, flags) }")
    theirs = in_dalli(OBJECTS, "input.map { |object| marshaller.store('key', object) }")
    assert_equal OBJECTS, theirs.map { |bytes, flags| ours.load(bytes, flags) }
  end

  def test_strings_of_the_default_are_dallis_fast_path
    need_dalli
    skip "Dalli 3 has no fast path for strings" if RUBY_VERSION < "3.3"
    strings = OBJECTS.grep(String)
    stored = strings.map { |string| made.dump("key", string) }
    assert_equal in_dalli(strings, "input.map { |object| marshaller.store('key', object) }", "string_fastpath: true"), stored
    assert_equal strings, in_dalli(stored, "input.map { |bytes, flags| marshaller.retrieve(bytes, flags) }")
  end

  def test_flags
    values = made
    assert_equal ["ü", 4], values.dump("key", "ü")
    assert_equal ["\xff".b, 0], values.dump("key", "\xff".b)
    assert_equal 1, values.dump("key", [1]).last
    assert_equal 6, values.dump("key", "a" * 4_096).last
    assert_equal 4, values.dump("key", "a" * 4_095).last
    assert_equal 3, values.dump("key", ["a" * 4_096]).last
    assert_equal 1, values.dump("key", "text", string_fastpath: false).last
    assert_equal 1, values.dump("key", "text".encode("UTF-16LE")).last
  end

  def test_all_of_it_comes_back
    values = made
    [*OBJECTS[0..-2], "text".encode("UTF-16LE"), 1.to_s].each do |object|
      bytes, flags = values.dump("key", object)
      back = values.load(bytes.b, flags)
      assert_operator object, :eql?, back
      assert_equal object.encoding, back.encoding if object.is_a?(String)
    end
  end

  def test_compression_can_be_chosen_for_a_client_and_for_a_value
    long = "a" * 5_000
    assert_equal 4, made(compress: false).dump("key", long).last
    assert_equal 6, made(compress: false).dump("key", long, compress: true).last
    assert_equal 4, made.dump("key", long, compress: false).last
    assert_equal 6, made(compression_min_size: 10).dump("key", "a" * 10).last
    gzip = made(compressor: Gyre::Memcached::GZIP)
    assert_equal long, gzip.load(*gzip.dump("key", long))
  end

  def test_a_raw_value_is_a_string_and_stays_unchanged
    long = "a" * 5_000
    assert_equal [long, 0], made.dump("key", long, raw: true)
    assert_equal [long, 0], made(raw: true).dump("key", long)
    assert_equal "\x04\x08i\x06", made(raw: true).load("\x04\x08i\x06", 1)
    assert_raises(Gyre::Memcached::SerializationError) { made.dump("key", 1, raw: true) }
    assert_raises(Gyre::Memcached::SerializationError) { made(raw: true).dump("key", 1) }
  end

  def test_the_limit_counts_key_and_item
    values = made(value_max_bytes: 1_000, compress: false)
    fits = "a" * (1_000 - 63 - 3)
    assert_equal fits, values.dump("key", fits).first
    error = assert_raises(Gyre::Memcached::ValueTooLarge) { values.dump("key", "#{fits}a") }
    assert_kind_of ArgumentError, error
    assert_match(/\Astore key: the item has 1001 bytes .*value_max_bytes is 1000/, error.message)
    other = Class.new(StandardError)
    assert_raises(other) { made(value_max_bytes: 100, too_large_error: other).dump("key", fits) }
  end

  class Refusing
    def self.dump(_value) = raise("not this")
    def self.load(_bytes) = raise("nor this")
  end

  def test_errors_of_serializers_and_compressors_name_what_failed
    values = made(serializer: Refusing)
    assert_match(/store key: .*Refusing cannot serialize an object of Integer: not this/,
      assert_raises(Gyre::Memcached::SerializationError) { values.dump("key", 1) }.message)
    assert_match(/not in the form of .*Refusing: nor this/, assert_raises(Gyre::Memcached::DeserializationError) { values.load("x", 1) }.message)
    assert_raises(Gyre::Memcached::DeserializationError) { made.load("not zlib", 2) }
    assert_raises(Gyre::Memcached::DeserializationError) { made(**MARSHAL).load("\x04\x08o:\fUnknownThing\x00", 1) }
    assert_raises(Gyre::Memcached::DeserializationError) { made.load(Marshal.dump([Object.new]), 1) }
  end

  def test_serializers_of_others
    values = made(serializer: JSON)
    assert_equal({ "a" => [1, nil] }, values.load(*values.dump("key", { a: [1, nil] })))
  end

  def test_what_a_compressor_may_make_of_a_value_has_a_limit
    values = made(decompressed_max_bytes: 10_000)
    assert_raises(Gyre::Memcached::DeserializationError) { values.load(Zlib::Deflate.deflate("a" * 10_001), 2) }
    assert_equal "a" * 10_000, values.load(Zlib::Deflate.deflate("a" * 10_000), 2)
    plain = Module.new { def self.decompress(bytes) = Zlib::Inflate.inflate(bytes) }
    assert_equal "a" * 10_001, made(compressor: plain, decompressed_max_bytes: 10).load(Zlib::Deflate.deflate("a" * 10_001), 2)
  end

  private

  # Those of a client with these options.
  def made(**options) = Gyre::Memcached::Options.new(options).values

  def in_dalli(input, code, options = "")
    silent = RUBY_VERSION >= "3.3" ? "silence_marshal_warning: true" : ""
    with_dalli(input, "marshaller = Dalli::Protocol::ValueMarshaller.new({#{[silent, options].reject(&:empty?).join(", ")}}); #{code}")
  end
end
