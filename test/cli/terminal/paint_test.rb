# frozen_string_literal: true

# Colours where they belong, and text that cannot harm a terminal.

require "test_helper"
require "gyre/cli/terminal/paint"

class CLIPaintTest < Minitest::Test
  Paint = Gyre::CLI::Paint

  def test_colours_or_none
    assert_equal "\e[31mx\e[0m", Paint.new(true).call("x", :red)
    assert_equal %w[x x], [Paint.new(true).call("x", nil), Paint.new(false).call("x", :red)]
    assert_equal "x", Paint.for(StringIO.new).call("x", :red)
  end

  def test_every_severity_of_the_five_has_its_own
    assert_equal 5, %w[debug info warn error fatal].map { |severity| Paint.new(true).severity(severity) }.compact.uniq.size
    assert_nil Paint.new(true).severity("audit")
  end

  def test_control_characters_are_shown_and_not_obeyed
    assert_equal "a\\e[2J\\x07\\n\\x9b\tü", Paint.new(true).harmless("a\e[2J\a\n\u009b\tü")
    assert_equal "\\x202e", Paint.new(true).harmless("\u202e")
    assert_equal "a?\\e\n\\r\nü", Paint.harmless_lines("a\xff\e\n\r\nü".b)
    assert_equal "é", Paint.harmless("\xe9".dup.force_encoding(Encoding::ISO_8859_1))
    assert_equal %({"a":"\\u009b"}), Paint.harmless_json(%({"a":"\u009b"}))
  end
end
