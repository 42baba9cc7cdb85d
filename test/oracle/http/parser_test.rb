# frozen_string_literal: true

# Both HTTP/1 parsers against every case of cases.rb: the Ruby one here, the C one through a program
# that is compiled for this test, plain and with sanitizers. Each way of arriving is tried by what
# runs the case (verdicts.rb, test/c/http1_exercise.c).
require "test_helper"
require "http/cases"

class HTTP1ParserTest < Minitest::Test
  # Compiled once for all tests; the folder goes at the end of the process.
  module Programs
    class << self
      def plain
        @plain ||= HTTPVerdicts::Native.build(folder("plain"), GyreTest::PlainC::PLAIN)
      end

      def sanitized
        @sanitized ||= HTTPVerdicts::Native.build(folder("sanitized"), GyreTest::PlainC::SANITIZED)
      end

      private

      def folder(name)
        @folder ||= Dir.mktmpdir("gyre-http1-").tap { |path| Minitest.after_run { FileUtils.remove_entry(path) } }
        File.join(@folder, name).tap { |path| Dir.mkdir(path) unless Dir.exist?(path) }
      end
    end
  end

  HTTPCases::ALL.each_with_index do |example, index|
    define_method("test_in_Ruby_#{index}: #{example.name}") do
      assert_case example, HTTPVerdicts::Portable.verdict(example.input)
    end
  end

  def test_no_two_cases_have_the_same_name
    names = HTTPCases::ALL.map { |example| [example.input.kind, example.name] }
    assert_empty names.tally.select { |_, count| count > 1 }
  end

  def test_in_c_every_case
    assert_every_case need(Programs.plain)
  end

  def test_in_c_with_sanitizers_every_case
    assert_every_case need(Programs.sanitized)
  end

  def test_in_c_what_only_c_has
    [Programs.plain, Programs.sanitized].compact.each do |native|
      words = IO.popen(native.program, err: %i[child out], &:read)
      assert $?.success?, words
    end
    need(Programs.plain)
  end

  def test_both_parsers_give_the_same_in_full
    native = need(Programs.plain)
    inputs = HTTPCases::ALL.map(&:input)
    different = native.verdicts(inputs).zip(inputs).reject do |verdict, input|
      verdict == HTTPVerdicts::Portable.verdict(input, splits: false)
    end
    assert_empty different
  end

  def test_a_parser_is_used_again_after_a_reset
    parser = HTTPOracle::Parser.new
    assert_equal(-1, parser.parse("GET / HTTP/3.0\r\n".b))
    assert_equal(-1, parser.parse("GET / HTTP/1.1\r\nHost: a\r\n\r\n".b), "a verdict stays")
    assert_equal 505, parser.status
    parser.reset
    assert_equal 27, parser.parse("GET / HTTP/1.1\r\nHost: a\r\n\r\n".b)
    assert_nil parser.status
    assert_equal [%w[Host a]], parser.headers
  end

  def test_text_of_another_encoding_is_a_mistake_of_the_caller
    assert_raises(ArgumentError) { HTTPOracle::Parser.new.parse("GET") }
  end

  private

  def need(native)
    native || skip("no C compiler that can do it (cc, gcc, clang): the C parser is not tested here")
  end

  def assert_every_case(native)
    verdicts = native.verdicts(HTTPCases::ALL.map(&:input))
    wrong = HTTPCases::ALL.zip(verdicts).reject { |example, verdict| part_expected(example, verdict) == example.expected }
    assert_empty wrong.map { |example, verdict| "#{example.name}: #{verdict}" }
  end

  def assert_case(example, verdict)
    assert_equal example.expected, part_expected(example, verdict), "#{example.input.bytes[0, 200].inspect}\n#{verdict}"
  end

  def part_expected(example, verdict)
    seen = verdict.select { |key, _| example.expected.key?(key) }
    seen["fields"] = seen["fields"].map { |name, value, _| [name, value] } if seen["fields"]
    seen
  end
end
