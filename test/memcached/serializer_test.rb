# frozen_string_literal: true

# Gyre::Memcached::Serializer: what it stores comes back equal, what it cannot store it refuses, and
# what others have stored makes no other objects.

require "test_helper"
require "gyre/memcached/serializer"

class MemcachedSerializerTest < Minitest::Test
  Serializer = Gyre::Memcached::Serializer

  EDGES = [0x1f, 0x20, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
           2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**200].freeze
  VALUES = [
    nil, true, false, 0, *EDGES, *EDGES.map(&:-@), *EDGES.map { |edge| -edge - 1 },
    0.0, 1.5, -1e300, Float::INFINITY, -Float::INFINITY,
    "", "text", "ü" * 40, "a" * 31, "a" * 32, "a" * 255, "a" * 256, "a" * 65_536, "\xff\x00".b, "\xff", "x".b * 300,
    "latin \xe4".dup.force_encoding("ISO-8859-1"), "wide".encode("UTF-16LE"), "ascii".encode("US-ASCII"),
    :symbol, :"with space", :"ü", [], {}, [1, [2, [3, nil]]], Array.new(15, 1), Array.new(16, 1), Array.new(70_000, 7),
    { "a" => 1, b: 2, 3 => [4], nil => nil, [1] => { x: {} } }, Array.new(20) { |number| [number, number.to_s] }.to_h
  ].freeze

  def test_each_comes_back_equal_and_in_its_encoding
    VALUES.each do |value|
      back = Serializer.load(Serializer.dump(value))
      assert back.eql?(value), value.inspect[0, 100]
      assert_equal value.encoding, back.encoding if value.is_a?(String)
      assert_equal Encoding::BINARY, Serializer.dump(value).encoding
    end
    assert_predicate Serializer.load(Serializer.dump(Float::NAN)), :nan?
    assert_equal(-Float::INFINITY, 1 / Serializer.load(Serializer.dump(-0.0)))
  end

  def test_the_form_is_json
    { nil => "[null]", "abc" => '["abc"]', [1, 2.5] => "[[1,2.5]]", { "a" => 1 } => '[{"hash":[["a"],[1]]}]', :a => '[{"symbol":"a"}]',
      "a".b => '[{"string":["YQ==","BINARY"]}]' }.each { |value, text| assert_equal text, Serializer.dump(value).sub("ASCII-8BIT", "BINARY") }
  end

  class Text < String; end

  def test_what_would_not_come_back_as_it_was_is_refused
    circle = []
    circle << circle
    [Object.new, Time.at(0), 1r, Text.new("a"), Class, 1..2, [Object.new], { a: Object.new }, Hash.new(1), Hash.new { 1 },
     {}.compare_by_identity, circle, "ü".encode("ISO-8859-1").to_sym].each do |value|
      assert_raises(Gyre::Memcached::SerializationError) { Serializer.dump(value) }
    end
    error = assert_raises(Gyre::Memcached::SerializationError) { Serializer.dump(a: [1..2]) }
    assert_match(/Range is not among .* serializer: Marshal/, error.message)
  end

  def test_each_beginning_of_a_value_is_refused
    VALUES.each do |value|
      bytes = Serializer.dump(value)
      next if bytes.bytesize > 400

      bytes.bytesize.times { |size| assert_raises(Gyre::Memcached::DeserializationError) { Serializer.load(bytes.byteslice(0, size)) } }
      assert_raises(Gyre::Memcached::DeserializationError) { Serializer.load("#{bytes}\x00".b) }
    end
  end

  def test_any_bytes_make_a_value_of_these_classes_or_an_error
    random = Random.new(13)
    5_000.times do
      bytes = random.bytes(random.rand(1..40))
      assert_plain Serializer.load(bytes)
    rescue Gyre::Memcached::DeserializationError
      next
    end
  end

  def test_other_json_is_refused
    ["1", "[]", "[1,2]", '{"hash":[[],[]]}', "[{}]", '[{"hash":[[1]]}]', '[{"hash":{}}]', '[{"symbol":1}]', '[{"string":["YQ","UTF-8"]}]',
     '[{"string":["YQ==","none"]}]', '[{"json_class":"Range"}]', "[\"\xff\"]"].each do |text|
      assert_raises(Gyre::Memcached::DeserializationError, text) { Serializer.load(text.b) }
    end
    assert_match(/nesting/, assert_raises(Gyre::Memcached::DeserializationError) { Serializer.load("[" * 500) }.message)
  end

  def test_a_value_of_marshal_is_recognized
    error = assert_raises(Gyre::Memcached::DeserializationError) { Serializer.load(Marshal.dump(Object.new)) }
    assert_match(/it looks like Marshal's/, error.message)
  end

  private

  def assert_plain(value)
    case value
    when Array then value.each { |part| assert_plain(part) }
    when Hash then value.flatten(1).each { |part| assert_plain(part) }
    else assert_includes [NilClass, TrueClass, FalseClass, Integer, Float, String, Symbol], value.class
    end
  end
end
