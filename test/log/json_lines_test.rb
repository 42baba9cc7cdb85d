# frozen_string_literal: true

require "test_helper"
require "gyre/log/json_lines"

class LogJSONLinesTest < Minitest::Test
  def parse(line)
    Gyre::Log::JSONLines.parse(line)
  end

  def test_the_fields_become_a_message
    assert_equal %w[web warn hello], parse('{"service":"web","severity":"warn","message":"hello"}')
    assert_equal %w[web error hello], parse('{"msg":"hello","level":"ERR","app":"web"}')
    assert_equal ["json", "info", ""], parse("{}")
  end

  def test_what_is_left_stands_behind_the_message
    assert_equal 'hello {"user":{"id":7},"name":null}', parse('{"user":{"id":7},"message":"hello","name":null}')[2]
    assert_equal '{"a":"é"}'.b, parse('{"a":"é"}')[2]
    assert_equal '[1,2] {"msg":"b"}', parse('{"message":[1,2],"msg":"b"}')[2]
    assert_equal ["json", '{"service":{"name":"a"}}'], parse('{"service":{"name":"a"}}').values_at(0, 2)
  end

  def test_other_programs_severities_become_ours
    { '"WARNING"' => "warn", '"crit"' => "fatal", '"trace"' => "debug", '"own"' => "own", "3" => "error", "7" => "debug", "10" => "debug",
      "30" => "info", "35" => "info", "40" => "warn", "50" => "error", "60" => "fatal", "null" => "info" }.each do |value, expected|
      assert_equal expected, parse(%({"level":#{value}}))[1], value
    end
  end

  def test_what_is_no_object_is_a_message_as_it_is
    ["panic: oh no", "[1,2]", "\"text\"", "{\"a\":", "\xff\xfe", "[" * 200].each do |line|
      assert_equal ["json", "info", line.b], parse(line)
    end
  end

  def test_what_json_can_read_but_not_write_is_a_message_as_it_is
    capture { assert_equal ["json", "info", '{"a":1e999}'], parse('{"a":1e999}') } # Ruby warns of the number
  end

  def test_an_empty_line_is_nothing
    ["", " ", "\r\n"].each { |line| assert_nil parse(line) }
  end
end
