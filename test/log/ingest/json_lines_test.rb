# frozen_string_literal: true

require "test_helper"
require "gyre/log/ingest/json_lines"

class LogJSONLinesTest < Minitest::Test
  def parse(line)
    Gyre::Log::JSONLines.parse(line)
  end

  def test_the_fields_become_a_message
    assert_equal %w[web warn hello], parse('{"service":"web","severity":"warn","message":"hello"}')
    assert_equal %w[web error hello], parse('{"msg":"hello","level":"ERR","app":"web"}')
    assert_equal ["json", "info", ""], parse("{}")
  end

  def test_what_is_left_stands_after_the_message
    assert_equal 'hello {"user":{"id":7},"name":null}', parse('{"user":{"id":7},"message":"hello","name":null}')[2]
    assert_equal '{"a":"é"}'.b, parse('{"a":"é"}')[2]
    assert_equal '[1,2] {"msg":"b"}', parse('{"message":[1,2],"msg":"b"}')[2]
    assert_equal ["json", '{"service":{"name":"a"}}'], parse('{"service":{"name":"a"}}').values_at(0, 2)
  end

  def test_other_programs_severities_become_ours
    { '"WARNING"' => "warn", '"crit"' => "fatal", '"trace"' => "debug", '"own"' => "own", "null" => "info" }.each do |value, expected|
      assert_equal expected, parse(%({"level":#{value}}))[1], value
    end
  end

  # 3 is an error to syslog and Logger, 30 is information to pino: what is meant cannot be seen.
  def test_a_level_that_is_a_number_stays_that_number
    assert_equal %w[3 30 2.5], %w[3 30 2.5].map { |level| parse(%({"level":#{level}}))[1] }
  end

  def test_an_invalid_object_is_a_message_as_it_is
    ["panic: oh no", "[1,2]", "\"text\"", "{\"a\":", "\xff\xfe", "[" * 200].each do |line|
      assert_equal ["json", "info", line.b], parse(line)
    end
  end

  def test_what_json_can_read_but_not_write_is_a_message_as_it_is
    capture { assert_equal ["json", "info", '{"a":1e999}'], parse('{"a":1e999}') } # Ruby warns of the number
  end

  # A level, a service or a message with it would otherwise raise in the middle of a connection.
  def test_half_a_surrogate_pair_is_replaced_where_text_is_taken_and_kept_as_it_is_elsewhere
    half = "\u{fffd}" * 3
    { '{"service":"\udc00","level":"\udc00"}' => [half, half, ""], '{"message":"a\udc00"}' => ["json", "info", "a#{half}"] }.each do |line, expected|
      newer = ["json", "info", line] # newer versions of the library refuse it
      assert_includes [expected.map(&:b), newer], parse(line)
    end
    ['{"message":"a","x":"\udc00"}', '{"x":{"\udc00":1}}', '{"message":["\ud800"]}'].each do |line|
      assert_equal ["json", "info"], parse(line).first(2)
      refute_empty parse(line)[2]
    end
  end

  def test_a_number_with_very_many_digits_is_not_read
    long, longer = "1" * 1000, "1" * 1001
    assert_equal ["json", "info", "a {\"x\":#{long}}"], parse(%({"message":"a","x":#{long}}))
    ["{\"x\":#{longer}}", "{\"x\":[-#{longer}.5e7]}", "{\"x\":1e#{longer}}", "{\"a\":\"\\\"\",\"x\":#{longer}}"].each do |line|
      assert_equal ["json", "info", line], parse(line)
    end
    assert_equal "#{longer}\"", parse(%({"message":"#{longer}\\""}))[2] # a text may be as long as it likes
    ["\"#{longer}", "\"#{longer}\\", "\"\\\"" * 100_000 + longer].each { |line| assert_equal line, parse(line)[2] }
  end

  def test_the_same_key_twice_is_not_a_mistake
    assert_equal "b", parse('{"message":"a","message":"b"}')[2]
  end

  def test_the_dotted_fields_of_ecs_and_opentelemetry_are_read
    assert_equal ["shop", "warn", "paid", 1_795_288_800_123_456],
      parse('{"@timestamp":"2026-11-21T19:20:00.123456Z","log.level":"WARN","service.name":"shop","message":"paid"}')
    assert_equal ["json", "info", '{"@timestamp":"soon","service":{"id":1}}'], parse('{"@timestamp":"soon","service":{"id":1}}')
  end

  def test_an_empty_line_is_nothing
    ["", " ", "\r\n"].each { |line| assert_nil parse(line) }
  end
end
