# frozen_string_literal: true

# Tables of settings: Gyre::Settings, its rows and their types.

require "test_helper"
require "gyre/settings"

class SettingsTest < Minitest::Test
  Settings = Gyre::Settings
  ROW = Settings.method(:row)
  PART = Settings.new({ nil => [ROW[:size, :bytes, "a size"], ROW[:secret, :text, "a key", secret: true]] }, needs: %i[size])
  TABLE = Settings.new({
    "One" => [ROW[:port, :port, "the port", default: 80, also: %i[gate]], ROW[:wait_timeout_s, :timeout, "a time", default: 3],
              ROW[:format, %w[text json], "a word"], ROW[:loud, :flag, "a flag", default: false],
              ROW[:names, :text, "names", list: true, default: []]],
    nil => [ROW[:parts, PART, "sections", list: true], ROW[:part, PART, "a section"]]
  }, foreign: { gateway: "write port" }) do |values, faults|
    faults.add("loud", "needs a format") if values[:loud] && !values.key?(:format)
  end

  def test_values_are_read_by_their_types
    given = { "port" => "90", wait_timeout: "2 minutes", format: :JSON, "loud" => "true", names: "a", parts: [{ size: "1k" }], part: { "size" => 7 } }
    assert_equal({ port: 90, wait_timeout_s: 120, format: "json", loud: true, names: ["a"], parts: [{ size: 1024 }], part: { size: 7 } },
                 TABLE.read(given))
    assert_equal TABLE.read(given), TABLE.read(TABLE.read(given))
  end

  def test_what_is_not_given_has_its_default_and_so_has_nil
    assert_equal({ port: 80, wait_timeout_s: 3, format: nil, loud: false, names: [], parts: nil, part: nil }, TABLE.complete({ port: nil }))
  end

  def test_a_time_may_have_no_end
    assert_equal [{ wait_timeout_s: nil }] * 4, [nil, "none", "None", :none].map { |value| TABLE.read({ wait_timeout_s: value }) }
  end

  def test_all_faults_are_reported_at_once_with_their_paths
    given = { port: "x", prot: 1, gateway: 1, loud: true, format: "xml", parts: [{ size: 1 }, { size: 0, sizes: 1 }, 5], part: { secret: 7 } }
    error = assert_raises(Settings::Invalid) { TABLE.read(given) }
    assert_equal [["port", 'must be a port, 0 to 65535, not "x"'], ["prot", "unknown setting; did you mean port?"],
                  ["gateway", "unknown setting; write port"], ["format", 'must be text or json, not "xml"'],
                  ["parts[2].size", "must be a number of bytes like 500, 64k or 10M, not 0"],
                  ["parts[2].sizes", "unknown setting; did you mean size?"],
                  ["parts[3]", "must be keys with values"], ["part.secret", "must be text"], ["part", "needs size"]], error.faults
    assert_kind_of ArgumentError, error
  end

  def test_values_are_checked_together
    assert_equal "loud: needs a format", assert_raises(ArgumentError) { TABLE.read({ loud: true }) }.message
  end

  def test_one_name_is_given_once
    assert_includes assert_raises(ArgumentError) { TABLE.read({ port: 1, gate: 2 }) }.message, "gate: is the same as another key here"
  end

  def test_a_row_has_its_words
    row = TABLE[:wait_timeout]
    assert_equal [:wait_timeout_s, "wait_timeout", "--wait-timeout", "SECONDS", "3"], [row.name, row.word, row.flag, row.argument, row.default_text]
    assert_same TABLE[:port], TABLE["gate"]
    assert_equal "64M", ROW[:a, :bytes, "a", default: 64 << 20].default_text
  end

  def test_messages_hold_no_password_and_no_long_text
    assert_equal '"redis://…@host/0"', Settings.shown("redis://user:password@host/0")
    assert_operator Settings.shown("x" * 500).size, :<=, 80
  end
end
