# frozen_string_literal: true

# The bytes that the log's ingest writes.
require "test_helper"
require "json"
require_relative "../log/ingests"

class LogIngestLineContractTest < Minitest::Test
  include LogIngests::Tools

  def line(message, service: "web", severity: "info", **options)
    sink = sink(**options)
    ingest.log(service, severity, message, LogIngests::TIME_NS)
    sink.take.first
  end

  def test_ordinary_text_is_as_it_came
    text = "héllo\t|\"'%{} \u{1f600}\xff".b
    assert_equal "2026/11/21 19:20:00|web|info|#{text}\n".b, line(text)
    assert_equal Encoding::BINARY, line(text).encoding
  end

  def test_nothing_in_a_message_can_forge_a_line
    (0..0x1f).to_a.push(0x7f, 0x5c).each do |byte|
      expected = { 0x09 => "\t", 0x0a => '\n', 0x0d => '\r', 0x5c => "\\\\" }.fetch(byte) { format('\x%02x', byte) }
      0.upto(17) do |position|
        text = "a" * 17
        text.insert(position, byte.chr)
        assert_equal "2026/11/21 19:20:00|web|info|#{("a" * 17).insert(position, expected)}\n", line(text)
      end
    end
  end

  # "\u009b" is an escape for a terminal, "\u202e" turns what follows, "\u2028" is a line's end to
  # some.
  def test_what_harms_a_terminal_or_a_reader_is_escaped_beyond_ascii_too
    harmful = [*0x80..0x9f, 0x61c, 0x200e, 0x200f, *0x2028..0x202e, *0x2066..0x2069]
    ([0xa0, 0x61b, 0x61d, 0x200d, 0x2010, 0x2027, 0x202f, 0x2065, 0x206a, 0x3000, 0x1f600] + harmful).each do |code|
      char = [code].pack("U")
      shown = harmful.include?(code) ? format('\u%04x', code) : char
      ["", "é", "12345678", "1234567é€"].each do |before|
        assert_equal "2026/11/21 19:20:00|web|info|#{before}#{shown}z\n".b, line("#{before}#{char}z")
        assert_includes line("#{before}#{char}z", format: :json), %("message":"#{before}#{shown}z"}).b
        assert_includes line("", service: "#{before}#{char}"), "|#{before}#{shown}|".b
      end
    end
  end

  def test_a_byte_that_is_not_utf8_is_escaped_only_where_it_is_a_control_character
    { "\x9b" => '\x9b', "\xe2\x80" => "\xe2\\x80", "\xc2" => "\xc2", "\xa0\xff" => "\xa0\xff", "\xf0\x9f\x98" => "\xf0\\x9f\\x98",
      "\xed\xa0\x80" => "\xed\xa0\\x80" }.each do |bytes, shown|
      assert_equal "2026/11/21 19:20:00|web|info|é#{shown}".b + "z\n".b, line("é#{bytes}z".b), bytes.inspect
    end
  end

  def test_service_and_severity_cannot_end_their_fields
    assert_equal "2026/11/21 19:20:00|a\\x7cb\\n|c\\\\d\\x7c|e\n", line("e", service: "a|b\n", severity: "c\\d|")
  end

  def test_raw_lines_have_the_messages_bytes
    assert_equal "2026/11/21 19:20:00|a\\n|info|b\n\0\\\n", line("b\n\0\\", service: "a\n", raw: true)
  end

  def test_json_lines_are_json
    text = "a\"\\\b\f\n\r\t\u0001\u007f\u2028 é \u{1f600}"
    line = line(text, format: :json, service: "w\"", severity: "i\n")
    assert_equal({ "time" => "2026-11-21T19:20:00.123456+00:00", "service" => "w\"", "severity" => "i\n", "message" => text },
      JSON.parse(line.force_encoding("UTF-8")))
    assert_equal 1, line.count("\n")
  end

  def test_invalid_utf8_is_replaced_in_json
    { "\xff" => 1, "\xc3" => 1, "\xe2\x82" => 1, "\xf0\x9f\x98" => 1, "\xc0\x80" => 2, "\xed\xa0\x80" => 3, "\xf4\x90\x80\x80" => 4,
      "\xe0\x80\x80" => 3, "\xf0\x80\x80\x80" => 4, "\x80\xbf" => 2, "\xe2\x82\xe2\x82\xac" => nil }.each do |bytes, count|
      expected = count ? "\u{fffd}" * count : "\u{fffd}€"
      ["", "x", "1234567"].each do |before|
        assert_includes line("#{before}#{bytes}z".b, format: :json), %("message":"#{before}#{expected}z"}).b, bytes.inspect
      end
    end
  end

  def test_a_records_time_of_logging_is_in_json
    sink = sink(format: :json)
    feed(record(1, "a", time_us: 1_795_288_799_000_001) + record(2, "b", time_us: 253_402_214_400_000_000), kind: :records)
    one, two = sink.take.first.lines.map { |line| JSON.parse(line) }
    assert_equal "2026-11-21T19:19:59.000001+00:00", one["logged_at"]
    refute two.key?("logged_at"), "a time in a year of five digits is none"
  end

  def test_redis_gets_a_command_for_each_message
    sink = sink(format: :redis, key: "lögs")
    ingest.log("web", "info", "a\r\nb", LogIngests::TIME_NS)
    ingest.log("web", "info", "", LogIngests::TIME_NS)
    assert_equal 2, sink.lines
    text = sink.take.first
    assert_equal ["XADD", "lögs".b, "*", "service", "web", "severity", "info", "message", "a\r\nb", "time", "2026-11-21T19:20:00.123456+00:00"],
      command(text)
    assert_equal "", command(text)[8]
    assert_empty text
  end

  def test_the_zones_change_shows_in_the_second_in_which_it_comes
    ENV["TZ"] = "CET-1CEST,M3.5.0,M10.5.0/3"
    sink, json = ingest.sink, ingest.sink(format: :json)
    ingest.route(nil, nil, [sink, json])
    change = 1_774_746_000 # 2026-03-29 01:00:00 UTC
    [-1, 0, -1].each { |second| ingest.log("a", "b", "c", (change + second) * 1_000_000_000) }
    assert_equal ["2026/03/29 01:59:59|a|b|c\n", "2026/03/29 03:00:00|a|b|c\n", "2026/03/29 01:59:59|a|b|c\n"], sink.take.first.lines
    assert_equal %w[01:59:59.000000+01:00 03:00:00.000000+02:00 01:59:59.000000+01:00], json.take.first.scan(/T([^"]+)/).flatten
  end

  def test_the_microseconds_belong_to_each_read
    sink = sink(format: :json)
    [0, 999_999_999, 1_000_000_000, 1_000, -1].each { |ns| ingest.log("a", "b", "c", LogIngests::TIME_NS - 123_456_789 + ns) }
    assert_equal %w[19:20:00.000000 19:20:00.999999 19:20:01.000000 19:20:00.000001 19:19:59.999999], sink.take.first.scan(/T([\d:.]+)/).flatten
  end

  private

  # Takes a command of Redis's protocol from the beginning of a text.
  def command(text)
    count = text.slice!(/\A\*(\d+)\r\n/n)[1..].to_i
    Array.new(count) do
      length = text.slice!(/\A\$(\d+)\r\n/n)[1..].to_i
      text.slice!(0, length + 2).byteslice(0, length)
    end
  end
end
