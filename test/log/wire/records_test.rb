# frozen_string_literal: true

require "test_helper"
require "oracle/log/records"

class LogRecordsTest < Minitest::Test
  Records = Gyre::Log::Records

  def record(**changes)
    Records.encode(seq: 1, time_us: 2, service: "web", severity: "info", message: "hello", **changes)
  end

  def test_a_record_is_laid_out_as_in_its_table
    bytes = record(seq: 0x0102030405060708, time_us: 0x1112131415161718)
    body = "\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x15\x16\x17\x18\x03\x04webinfohello".b
    assert_equal ["\0\0\0\x1e".b, [Zlib.crc32(body)].pack("N"), body], [bytes[0, 4], bytes[4, 4], bytes[8..]]
  end

  def test_what_goes_in_comes_out
    messages = [[1, 0, "", "", ""], [2, 5, "a:b|c", "é", "ééé\n\0"],
                [0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff, "s" * 255, "v" * 255, "m" * 100_000]]
    bytes = messages.map { |seq, time, *rest| Records.encode(seq: seq, time_us: time, **%i[service severity message].zip(rest).to_h) }.join
    assert_equal messages.map { |message| message.map { |part| part.is_a?(String) ? part.b : part } }, Records.each(bytes).to_a
    assert_equal bytes.bytesize, Records.each(bytes) { nil }
  end

  def test_a_beginning_is_left
    whole = record
    (0...whole.bytesize).each do |length|
      seen = 0
      assert_equal whole.bytesize, Records.each(whole + whole.byteslice(0, length)) { seen += 1 }
      assert_equal 1, seen
    end
  end

  def test_a_broken_record_is_an_error_that_names_its_place
    whole = record
    { "#{whole}\0\0\0\x11abcd" => "malformed record at byte #{whole.bytesize}", "\0\x10\0\1abcd" => "max length exceeded at byte 0",
      whole.b.tap { |bytes| bytes.setbyte(4, bytes.getbyte(4) ^ 1) } => "checksum failed at byte 0",
      whole.b.tap { |bytes| bytes.setbyte(bytes.bytesize - 1, 0) } => "checksum failed at byte 0",
      sealed("\0" * 18) => "sequence number 0 at byte 0", sealed("\1#{"\0" * 15}\1\0") => "malformed record at byte 0" }.each do |bytes, expected|
      assert_equal expected, assert_raises(Gyre::ProtocolError) { Records.each(bytes) { nil } }.message
    end
  end

  def test_what_a_record_cannot_carry_is_an_argument_error
    [{ seq: 0 }, { seq: 1 << 64 }, { service: "s" * 256 }, { severity: "s" * 256 }].each do |change|
      assert_raises(ArgumentError, change.inspect) { record(**change) }
    end
  end

  private

  def sealed(body)
    [body.bytesize, Zlib.crc32(body)].pack("NN") << body
  end
end
