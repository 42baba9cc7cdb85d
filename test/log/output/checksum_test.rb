# frozen_string_literal: true

# Gyre::Log::Checksum: the same as Zlib.crc32.

require "test_helper"
require "gyre"
require "gyre/log/output/checksum"
require "zlib"
require "support/engines"

GyreTest::Engines.test_case("LogChecksumTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  def test_it_is_zlibs
    bytes = Random.new(1).bytes(5000)
    [*0..200, 1000, 4990].product([0, 1, 7]).each do |length, offset|
      part = bytes.byteslice(offset, length)
      assert_equal Zlib.crc32(part), Gyre::Log::Checksum.of(part), "#{length} bytes from #{offset}"
    end
    assert_raises(TypeError) { Gyre::Log::Checksum.of(nil) }
  end
end
