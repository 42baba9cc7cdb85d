# frozen_string_literal: true

require "test_helper"
require "gyre/log/client/text"

class LogTextTest < Minitest::Test
  Text = Gyre::Log::Text

  def test_strings_come_as_they_are_or_in_utf_8
    ["ü", "a".encode("US-ASCII"), "\xFF".b, "\xFF"].each { |string| assert_same string, Text.message(string) }
    ["ISO-8859-1", "UTF-16LE", "UTF-16", "Windows-1252"].each do |name|
      text = Text.message("Grüße".encode(name))
      assert_equal ["Grüße", Encoding::UTF_8], [text, text.encoding], name
    end
    broken = "a\xD8".dup.force_encoding("UTF-16BE") + "\x00".dup.force_encoding("UTF-16BE")
    assert_equal ["a\xD8\x00".b, Encoding::BINARY], [Text.message(broken), Text.message(broken).encoding]
  end

  def test_objects_are_written_as_logger_does
    error = begin
      raise ArgumentError, "wrong"
    rescue ArgumentError => raised
      raised
    end
    assert_equal ["nil", "12", ":a", { "a" => 1 }.inspect], [nil, 12, :a, { "a" => 1 }].map { |object| Text.message(object) }
    assert_match(/\Awrong \(ArgumentError\)\n.*text_test\.rb:\d+/, Text.message(error))
    assert_equal "new (RuntimeError)\n", Text.message(RuntimeError.new("new"))
  end

  def test_severities
    assert_equal [2, 5, "notice", "é", "12.5"], [2, nil, :notice, "é".encode("ISO-8859-1"), 12.5].map { |severity| Text.severity(severity) }
  end

  def test_ranks
    assert_equal [0, 1, 4, 5, 5, 5, 5, -1], ["debug", :info, 4, 5, 99, "notice", nil, -1].map { |severity| Text.rank(severity) }
  end
end
