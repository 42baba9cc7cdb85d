# frozen_string_literal: true

# Flags in, settings out, for every command; what is reported about those that are none.

require "test_helper"
require "gyre/cli"
require "gyre/cli/flags"
require "stringio"

class CLIFlagsTest < Minitest::Test
  def test_flags_and_the_rest
    assert_equal %w[a b], read("a", "--port", "1", "b")
    assert_equal({ port: "1" }, @said)
    assert_match(/Usage: x.*--port PORT +the port/m, @flags.help)
  end

  def test_help_of_every_command_has_at_most_80_columns
    commands = Gyre::CLI::TABLE.map { |entry| [entry.name] } + [%w[dns query], %w[log send], %w[log tail], %w[log status], %w[log reopen], []]
    texts = commands.map { |words| StringIO.new.tap { |out| Gyre::CLI.start([*words, "--help"], out: out) }.string }
    assert_empty texts.flat_map(&:lines).select { |line| line.chomp.length > 80 }
    assert_operator texts.map(&:size).min, :>, 100
  end

  def test_every_way_to_write_a_flag
    [%w[-p 1], %w[-p1], %w[--port 1], %w[--port=1]].each do |words|
      assert_empty read(*words)
      assert_equal({ port: "1" }, @said, words)
    end
    assert_equal %w[rest], read("-zp", "1", "rest")
    assert_equal({ alone: true, port: "1" }, @said)
    assert_equal %w[--port 1], read("--", "--port", "1")
    assert_empty @said
  end

  def test_nothing_is_completed
    assert_equal "-w: unknown flag", refusal("-w", "4")
    assert_equal "-w4: unknown flag", refusal("-w4")
    assert_equal "-t: unknown flag", refusal("-t", "5")
    assert_equal "--write: unknown flag; did you mean --write-timeout?", refusal("--write", "4")
    assert_equal "--write=4: unknown flag; did you mean --write-timeout?", refusal("--write=4")
    assert_equal "--t: unknown flag", refusal("--t", "4")
    assert_empty @said
  end

  def test_what_is_wrong
    assert_equal "--prot: unknown flag; did you mean --port?", refusal("--prot", "1")
    assert_equal "-q: unknown flag", refusal("-q")
    assert_equal "--port: missing argument", refusal("--port")
    assert_equal "-k: unknown flag; it is a lock here", refusal("-k")
    assert_equal "--key=x: unknown flag; it is a lock here, too", refusal("--key=x")
  end

  def test_a_long_flag_with_one_dash_is_not_a_short_one_with_a_value
    assert_equal "-port: unknown flag; did you mean --port?", refusal("-port", "1")
    assert_equal "-port=1: unknown flag; did you mean --port=1?", refusal("-port=1")
  end

  def test_the_version_is_gyres
    read("--version")
    assert_equal :version, @flags.asked
  end

  def test_a_flag_may_have_another_name_that_is_not_in_the_help
    assert_empty read("--gate=1")
    assert_equal({ port: "1" }, @said)
    refute_includes @flags.help, "--gate"
  end

  def test_a_wrong_value_is_reported_with_its_flag
    assert_equal "--port: must not be 13", refusal("-p", "13")
  end

  def test_a_dash_alone_may_be_an_optional_argument
    [%w[-o -], %w[--output -], %w[--output=-]].each do |words|
      assert_empty read(*words)
      assert_equal({ output: "-" }, @said)
    end
  end

  def test_words_that_are_no_text_are_refused
    assert_match(/\A".*\?" is not valid UTF-8, the encoding of this terminal/, refusal(String.new("\xFF", encoding: "UTF-8")))
  end

  def test_errors_of_commands_are_gyres
    assert_operator Gyre::UsageError, :<, Gyre::Error
    assert_operator Gyre::StartError, :<, Gyre::Error
  end

  private

  def read(*arguments)
    @said = {}
    @flags = Gyre::CLI::Flags.new("Usage: x", hints: { "-k" => "it is a lock here", "--key" => "it is a lock here, too" },
                                         aliases: { "--gate" => "--port" }, dash: %w[-o --output]) do |flags|
      flags.on("-p", "--port PORT", "the port") { |value| value == "13" ? raise(ArgumentError, "must not be 13") : @said[:port] = value }
      flags.on("-o", "--output [FILE]") { |value| @said[:output] = value }
      flags.on("-z") { @said[:alone] = true }
      flags.on("--write-timeout SECONDS") { |value| @said[:write] = value }
      flags.on("--trailer-bytes BYTES") { |value| @said[:trailer] = value }
      flags.on("--trailer-lines COUNT") { |value| @said[:trailer] = value }
    end
    @flags.read(arguments)
  end

  def refusal(*arguments)
    assert_raises(Gyre::UsageError) { read(*arguments) }.message
  end
end
