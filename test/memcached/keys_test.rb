# frozen_string_literal: true

# Gyre::Memcached::Keys: namespaces, digests of long keys and what is refused, compared with the
# dalli gem's.

require "test_helper"
require "digest/sha2"
require "support/dalli_gem"
require "gyre/memcached/options"

class MemcachedKeysTest < Minitest::Test
  include GyreTest::DalliGem

  LONG = ["a" * 250, "a" * 251, "b" * 300, "#{"c" * 240}:#{"d" * 20}", "e" * 1000].freeze
  ENCODED = ["with space", "ключ", "ü" * 90, "ü" * 200, "x " * 140, "\xff\xfe"].freeze

  def test_dalli_makes_the_same_keys
    need_dalli
    options = [{}, { namespace: "app" }, { namespace: :app }, { namespace: "n" * 200 }, { digest_class: Digest::SHA256, namespace: "app" }]
    options.push({ namespace: "app", namespace_separator: "/" }) if RUBY_VERSION >= "3.3"
    keys = ["plain", *LONG]
    keys += ENCODED if RUBY_VERSION >= "3.3" # Dalli 3 counts characters
    theirs = with_dalli([options, keys], <<~'RUBY')
      input[0].map { |options| manager = Dalli::KeyManager.new(options); input[1].map { |key| manager.validate_key(key) } }
    RUBY
    options.zip(theirs) { |option, expected| assert_equal expected, keys.map { |key| made(**option).full(key) }, option.inspect }
  end

  def test_a_long_key_keeps_its_beginning_and_fits
    [made, made(namespace: "app"), made(digest_class: Digest::SHA512)].each do |keys|
      LONG.each do |key|
        full = keys.full(key)
        assert_operator full.bytesize, :<=, 250
        assert_equal full, keys.full(key)
      end
    end
    assert_equal "a" * 250, made.full("a" * 250)
    assert_equal "#{"b" * 212}:md5:#{Digest::MD5.hexdigest("b" * 300)}", made.full("b" * 300)
    assert_equal [250, 250], [251, 300].map { |size| made(namespace: "x").full("z" * size).bytesize }
  end

  def test_what_goes_as_base64_is_shortened_so_that_it_fits_there
    ENCODED.each { |key| assert_operator [made.full(key)].pack("m0").bytesize, :<=, 250, key }
    assert_equal "with space", made.full("with space")
  end

  def test_namespaces
    keys = made(namespace: "app")
    assert_equal %w[app:key app:app:key], [keys.full("key"), keys.full("app:key")]
    current = "one"
    changing = made(namespace: -> { current })
    assert_equal "one:key", changing.full("key")
    current = :two
    assert_equal "two:key", changing.full(:key)
    assert_equal %w[key key], [nil, false].map { |none| made(namespace: none).full("key") }
  end

  def test_an_encoding_that_nothing_can_stand_beside_is_refused
    wide = "ab".encode("UTF-16LE")
    [made, made(namespace: "n"), made(namespace: -> { "n" })].each { |keys| assert_raises(ArgumentError) { keys.full(wide) } }
    open = { control_characters: true }
    assert_equal wide, made(**open).full(wide)
    [[made(namespace: "n", **open), wide], [made(**open), wide * 100], [made(namespace: "größe"), "\xfc".b]].each do |keys, key|
      assert_match(/is in (UTF-16LE|ASCII-8BIT|BINARY)/, assert_raises(ArgumentError) { keys.full(key) }.message)
    end
  end

  def test_callers_keys_are_found_again
    keys = made(namespace: "app")
    long = "k" * 300
    assert_equal({ "app:1" => "1", "app:b" => "b", keys.full(long) => long }, keys.callers([1, :b, long, "b"]))
  end

  def test_what_cannot_be_a_key_is_refused
    [nil, "", :""].each { |key| assert_match(/blank/, assert_raises(ArgumentError) { made.full(key) }.message) }
    ["a\r\nb", "a\0b", "a\x7Fb", "\t", "ü\n", "\xff\n", "#{"a" * 300}\n"].each do |key|
      assert_match(/control characters/, assert_raises(ArgumentError) { made.full(key) }.message)
      refute_nil made(control_characters: true).full(key)
    end
    assert_raises(ArgumentError) { made(namespace: "a\nb").full("key") }
  end

  def test_what_cannot_be_an_option_is_refused
    assert_raises(ArgumentError) { made(digest_class: Object) }
    ["", "a", "1", " ", "\n", "::"].each { |separator| assert_raises(ArgumentError) { made(namespace_separator: separator) } }
    verbose = Object.new.tap { |digest| def digest.hexdigest(_key) = "0" * 251 }
    assert_match(/does not fit/, assert_raises(ArgumentError) { made(digest_class: verbose).full("a" * 251) }.message)
  end

  private

  # Those of a client with these options.
  def made(**options) = Gyre::Memcached::Options.new(options).keys
end
