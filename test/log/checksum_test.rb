# frozen_string_literal: true

# Gyre::Log::Checksum on both engines: the same as Zlib.crc32.

require "test_helper"
require "gyre"
require "gyre/log/checksum"
require_relative "../support/engines"

GyreTest::Engines.test_case("LogChecksumTest") do
  def test_it_is_zlibs
    bytes = Random.new(1).bytes(5000)
    [0, 1, 15, 16, 17, 31, 63, 64, 65, 127, 128, 1000, 5000].each do |length|
      assert_equal Zlib.crc32(bytes.byteslice(0, length)), Gyre::Log::Checksum.of(bytes.byteslice(0, length)), length.to_s
    end
    assert_raises(TypeError) { Gyre::Log::Checksum.of(nil) } if Gyre::Loop.native?
  end
end
