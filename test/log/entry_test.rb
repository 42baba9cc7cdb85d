# frozen_string_literal: true

# Lines, taken apart again.

require "test_helper"
require "gyre/log/entry"
require_relative "../oracle/log/line"

class LogEntryTest < Minitest::Test
  Entry = Gyre::Log::Entry

  def test_a_line_and_its_fields
    assert_equal ["2026/11/21 19:20:00", "web", "info", "a|b"], Entry.parse("2026/11/21 19:20:00|web|info|a|b\n").to_a
    assert_equal "", Entry.parse("2026/11/21 19:20:00|web|info|").message
    assert_nil Entry.parse("3 lines were dropped here")
  end

  def test_unescaping_restores_the_message
    every = (0..0xff).map(&:chr).join.b + "é".b
    text = "2026/11/21 19:20:00|#{LogOracle::Line.text_field("a|\\n")}|info|".b << LogOracle::Line.text(every)
    entry = Entry.parse(text)
    assert_equal "a|\\n", entry.service
    assert_equal every.dup.force_encoding(Encoding::UTF_8).scrub("\u{fffd}"), entry.message
  end

  def test_json
    json = JSON.parse(Entry.parse("2026/11/21 19:20:00|web|info|two\\nlines").to_json)
    assert_equal ["web", "info", "two\nlines"], json.values_at("service", "severity", "message")
    assert_equal Time.new(2026, 11, 21, 19, 20, 0), Time.iso8601(json["time"])
    assert_equal "?", JSON.parse(Entry.parse("?|web|info|x").to_json)["time"]
  end
end
