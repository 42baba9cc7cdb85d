# frozen_string_literal: true

# Keys, lists and limits out of nodes; what Analogger's and our keys mean is in
# configuration_test.rb.

require "test_helper"
require "gyre/cli/log/configuration"

class LogConfigurationReaderTest < Minitest::Test
  LIMITS = Gyre::Limits.with_table(Gyre::Limits.row(:message_bytes_limit, 1, :bytes, "a"), Gyre::Limits.row(:idle_timeout_s, 1, :seconds, "b"),
                                   Gyre::Limits.row(:connections_limit, 1, :count, "c", minimum: 2))

  def read(text)
    @reader = Gyre::CLI::Log::Configuration::Reader.new(limits: LIMITS)
    @reader.read(Gyre::CLI::Log::Configuration::Document.new(text) { flunk }.root)
  end

  def mistakes
    @reader.mistakes.map { |mistake| mistake.to_s("f") }
  end

  def test_limits_by_their_names_with_or_without_unit
    assert_equal({ message_bytes_limit: 64 << 10, idle_timeout_s: nil, connections_limit: 5 },
                 read("limits: {message_bytes_limit: 64k, idle_timeout: none, connections_limit: 5}")[:limits])
    assert_equal({ idle_timeout_s: 2.5 }, read("limits: {idle_timeout_s: 2.5}")[:limits])
    assert_empty mistakes
  end

  def test_limits_that_are_none
    read("limits:\n  idle_timout: 5\n  connections_limit: 1\n  message_bytes_limit: x")
    assert_equal ["f:2: limits.idle_timout: there is no such key; did you mean idle_timeout?",
                  "f:3: limits.connections_limit: must be a whole number, at least 2, not 1",
                  'f:4: limits.message_bytes_limit: must be a number of bytes like 500, 64k or 10M, not "x"'], mistakes
  end

  def test_the_nearest_key_is_proposed_also_from_other_programs
    read("prot: 1\nlisten: 2\nlogs: [{service: a, path: b, logfile: c}]\n:key: d\nqwertz: 1")
    assert_equal %w[port bind logfile key], mistakes.map { |text| text[/did you mean (\w+)/, 1] }.compact
    assert_match(/qwertz: there is no such key; there are: port, host, bind,/, mistakes.last)
  end

  def test_inputs_need_both
    read("inputs:\n- type: syslog\n- bind: localhost:514\n- {type: smoke, bind: localhost:514}")
    assert_equal ["f:2: inputs[1]: needs bind", "f:3: inputs[2]: needs type",
                  'f:4: inputs[3].type: must be syslog or json, not "smoke"'], mistakes
  end
end
