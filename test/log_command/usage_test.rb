# frozen_string_literal: true

# Flags in, a Hash out; what is said about those that are none.

require "test_helper"
require "gyre/log_command/usage"

class LogCommandUsageTest < Minitest::Test
  Usage = Gyre::LogCommand::Usage
  UsageError = Gyre::LogCommand::UsageError

  def usage(*arguments)
    @said = {}
    Usage.new(arguments, "Usage: x") do |flags|
      flags.on("-p", "--port PORT", "the port") { |value| @said[:port] = value }
    end
  end

  def test_flags_and_the_rest
    assert_equal %w[a b], usage("a", "--port", "1", "b").rest
    assert_equal({ port: "1" }, @said)
    assert_match(/Usage: x.*--port PORT +the port/m, usage.help)
  end

  def test_what_is_wrong
    assert_equal "--prot: there is no such flag; did you mean --port?", assert_raises(UsageError) { usage("--prot", "1") }.message
    assert_equal "-q: there is no such flag", assert_raises(UsageError) { usage("-q") }.message
    assert_equal "--port: missing argument", assert_raises(UsageError) { usage("--port") }.message
  end
end
