# frozen_string_literal: true

# YAML as nodes with lines.

require "test_helper"
require "gyre/cli/log/configuration"

class LogConfigurationDocumentTest < Minitest::Test
  def document(text)
    @said = []
    Gyre::CLI::Log::Configuration::Document.new(text) { |*said| @said << said }
  end

  def test_every_value_has_its_line_and_that_of_its_key
    root = document("a: 1\nb:\n  - x\n  -\n    c: d\n").root
    assert_equal [1, 1], root.value["a"].to_a.values_at(2, 4)
    list = root.value["b"]
    assert_equal [3, 2, 3, 5], [list.line, list.key_line, *list.value.map(&:line)]
    assert_equal({ "a" => 1, "b" => ["x", { "c" => "d" }] }, root.plain)
    assert_empty @said
  end

  def test_scalars_are_what_yaml_makes_of_them_without_objects
    assert_equal [1, 1.5, true, nil, "x", "1", "a", "2020-01-01", "12", ":a"],
                 document("- 1\n- 1.5\n- yes\n- ~\n- x\n- '1'\n- :a\n- 2020-01-01\n- !!str 12\n- ':a'\n").root.plain
    assert_equal [":a"], document(":a: 1").root.value.keys
  end

  def test_an_empty_text_has_no_root
    assert_nil document("").root
    assert_nil document("# a remark\n").root
    assert_empty @said
  end

  def test_text_that_is_no_yaml_is_reported_with_its_line
    assert_nil document("a: b\n  c: d\n").root
    assert_equal [[2, nil]], @said.map { |line, key, _| [line, key] }
  end

  def test_the_line_is_that_of_the_mistake_and_not_where_the_mapping_begins
    {
      "port: 1\nlogs:\n- service: a\n b: c\nkey: d\n" => 4, "a: 1\n\thost: x\nb: 2\n" => 2, "a: 1\n}\n\nb: 2\n" => 2,
      "a: [b,\nc: d\n" => 2, "a: 1\nb: \"x\n\nc: 3\n" => 2, "a\nb: 1" => 2
    }.each do |text, line|
      document(text)
      assert_equal [line], @said.map(&:first), text
    end
  end

  def test_aliases_that_multiply_are_no_work
    text = (1..60).reduce("a0: &a0 [x]\n") { |all, n| "#{all}a#{n}: &a#{n} [*a#{n - 1}, *a#{n - 1}, *a#{n - 1}]\n" }
    assert_equal 61, document(text).root.value.size
  end
end
