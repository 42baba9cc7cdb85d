# frozen_string_literal: true

# YAML as values with lines.

require "test_helper"
require "gyre/cli/log/configuration"

class LogConfigurationDocumentTest < Minitest::Test
  def document(text)
    @said = []
    Gyre::CLI::Log::Configuration::Document.new(text) { |*said| @said << said }
  end

  def test_every_path_has_its_line
    document = document("a: 1\nb:\n  - x\n  -\n    c: d\n")
    assert_equal({ "a" => 1, "b" => ["x", { "c" => "d" }] }, document.plain)
    lines = { nil => 1, "a" => 1, "b" => 2, "b[1]" => 3, "b[2]" => 5, "b[2].c" => 5, "b[2].d" => 5, "b[3]" => 2, "z" => 1 }
    assert_equal(lines, lines.to_h { |path, _| [path, document.line_of(path)] })
    assert_empty @said
  end

  def test_scalars_are_what_yaml_makes_of_them_without_objects
    assert_equal [1, 1.5, true, nil, "x", "1", "a", "2020-01-01", "12", ":a"],
                 document("- 1\n- 1.5\n- yes\n- ~\n- x\n- '1'\n- :a\n- 2020-01-01\n- !!str 12\n- ':a'\n").plain
    assert_equal "0777", document("key: 0777").written("key")
  end

  def test_an_empty_text_has_no_values
    assert_nil document("").plain
    assert_nil document("# a remark\n").plain
    assert_empty @said
  end

  def test_text_that_is_not_yaml_is_reported_with_its_line
    assert_nil document("a: b\n  c: d\n").plain
    assert_equal [[2, nil]], @said.map { |line, key, _| [line, key] }
  end

  def test_aliases_that_multiply_are_no_work
    text = (1..60).reduce("a0: &a0 [x]\n") { |all, n| "#{all}a#{n}: &a#{n} [*a#{n - 1}, *a#{n - 1}, *a#{n - 1}]\n" }
    assert_equal 61, document(text).plain.size
  end
end
