# frozen_string_literal: true

# Gyre::Redis::Wire: commands and replies.

require "test_helper"
require "gyre/redis/wire"

class RedisWireTest < Minitest::Test
  Wire = Gyre::Redis::Wire

  REPLIES = {
    "+OK\r\n" => "OK", "+\r\n" => "", "-ERR no\r\n" => Wire::Failure.new("ERR no"), ":-12\r\n" => -12, "$-1\r\n" => nil,
    "$0\r\n\r\n" => "", "$5\r\na\r\nbc\r\n" => "a\r\nbc", "*-1\r\n" => nil, "*0\r\n" => [],
    "*3\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n-ERR x\r\n" => ["a", [1, nil], Wire::Failure.new("ERR x")]
  }.freeze

  def test_replies
    REPLIES.each { |bytes, value| assert_equal [value], read(bytes.b), bytes.inspect }
  end

  def test_however_they_are_cut
    all = REPLIES.keys.join.b
    [1, 2, 3, 7, all.bytesize].each { |size| assert_values REPLIES.values, read(*all.scan(/.{1,#{size}}/mn)) }
    REPLIES.each { |bytes, value| (1...bytes.bytesize).each { |at| assert_values [value], read(bytes.byteslice(0, at).b, bytes.byteslice(at..).b) } }
  end

  # Copying what has come with each piece takes sixteen times as long.
  def test_the_work_for_a_long_reply_grows_with_its_length_only
    short, long = [8, 32].map { |megabytes| Array.new(2) { cost_s(megabytes << 20) }.min }
    assert_operator long, :<, 9 * short
  end

  def test_an_invalid_reply
    ["HTTP/1.1 400\r\n", "$x\r\n", "$-2\r\n", "$99999999999\r\n", "*-7\r\n", ":1e3\r\n", "\0\r\n"].each do |bytes|
      assert_raises(Wire::Malformed, bytes.inspect) { Wire.parse(bytes.b) }
    end
  end

  def test_commands_count_bytes
    assert_equal "*3\r\n$3\r\nSET\r\n$2\r\n\u00e9\r\n$2\r\n10\r\n".b, Wire.command("SET", "\u00e9", 10)
  end

  private

  # Returns the CPU seconds for a reply that comes in pieces of 64 KB.
  def cost_s(length)
    bytes = Wire.command("x" * length)
    at = -65_536
    reader = Wire::Reader.new { bytes.byteslice(at += 65_536, 65_536) }
    start = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    assert_equal length, reader.read.first.bytesize
    Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - start
  end

  # nil equals nil, and nothing is lost on the way.
  def assert_values(expected, values)
    assert_equal expected.inspect, values.inspect
  end

  # All replies in these pieces.
  def read(*pieces)
    reader = Wire::Reader.new { pieces.shift or throw :over }
    values = []
    catch(:over) { loop { values << reader.read } }
    values
  end
end
