# frozen_string_literal: true

require "test_helper"
require "gyre/log/wire"

class LogWireTest < Minitest::Test
  Wire = Gyre::Log::Wire

  def test_a_frame_has_its_length_twice_and_three_colons
    assert_equal "00170017:a:b:c:d ", Wire.frame("a", "b", "c:d ")
    assert_equal "00110011:::", Wire.frame("", "", "")
  end

  # Analogger's client counts characters here, and its stream is broken from then on.
  def test_the_length_counts_bytes
    frame = Wire.frame("service", "info", "ééé")
    assert_equal "0028", frame.byteslice(0, 4)
    assert_equal 28, frame.bytesize
    assert_equal Encoding::BINARY, frame.encoding
  end

  def test_a_message_beyond_the_wire_is_an_argument_error
    assert_match(/service "a:b"/, assert_raises(ArgumentError) { Wire.frame("a:b", "info", "") }.message)
    assert_match(/severity "a:b"/, assert_raises(ArgumentError) { Wire.frame("a", "a:b", "") }.message)
    assert_equal 8191, Wire.frame("a", "b", "x" * 8178).bytesize
    assert_match(/8192/, assert_raises(ArgumentError) { Wire.frame("a", "b", "x" * 8179) }.message)
  end

  def test_the_first_frame_is_found_when_it_is_whole
    frame = Wire.frame("web", "authentication/2 client=00", "a key: with colons")
    0.upto(frame.bytesize - 1) { |length| assert_nil Wire.authentication(frame.byteslice(0, length)) }
    assert_equal({ service: "web", severity: "authentication/2 client=00", key: "a key: with colons", rest: "more" },
      Wire.authentication("#{frame}more"))
    assert_equal "", Wire.authentication(Wire.frame("a", "authentication", ""))[:key]
  end

  def test_a_broken_first_frame_is_found_by_its_header
    { "00000000" => Wire::CHECKSUM_FAILED, "00100010" => Wire::CHECKSUM_FAILED, "00120013" => Wire::CHECKSUM_FAILED,
      "0x120x12" => Wire::CHECKSUM_FAILED, "GET / HT" => Wire::CHECKSUM_FAILED, "+012+012" => Wire::CHECKSUM_FAILED,
      "0012001\n" => Wire::CHECKSUM_FAILED, "\xff\xfe0\x000\x000\x00" => Wire::CHECKSUM_FAILED,
      "81928192" => Wire::TOO_LONG, "99999999" => Wire::TOO_LONG, "8191819" => nil, "81918191" => nil }.each do |bytes, expected|
      assert_equal [expected], [Wire.authentication(bytes)], bytes
    end
  end

  def test_a_frame_without_its_colons_is_malformed
    ["00110011a::", "00110011:a:", "00120012:abc"].each do |bytes|
      assert_equal Wire::MALFORMED, Wire.authentication(bytes), bytes
    end
  end
end
