# frozen_string_literal: true

# What becomes of syslog's messages: the log's ingest writes what the oracle does.
require "test_helper"
require_relative "../log/ingests"
require_relative "../oracle/log/ingest"

class LogIngestSyslogContractTest < Minitest::Test
  include LogIngests::Tools

  # Returns what the oracle takes it for.
  def parse(bytes)
    written = [LogOracle::Ingest.new, Gyre::Log::Ingest.new].map do |ingest|
      sink = ingest.sink(format: :json)
      ingest.route(nil, nil, [sink])
      ingest.datagram(:syslog, bytes.b, LogIngests::TIME_NS)
      sink.take
    end
    assert_equal 1, written.uniq.size, -> { "#{bytes.inspect}: #{written.inspect}" }
    LogOracle::Syslog.parse(bytes.b)
  end

  def test_the_examples_of_rfc_5424
    assert_equal ["su", "fatal", "host=mymachine.example.com id=ID47 'su root' failed for lonvick on /dev/pts/8", 1_065_910_455_003_000],
      parse("<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \xEF\xBB\xBF'su root' failed for lonvick on /dev/pts/8")
    assert_equal ["myproc", "info", "host=192.0.2.1 pid=8710 %% It's time to make the do-nuts.", 1_061_727_255_000_003],
      parse("<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time to make the do-nuts.")
    assert_equal ["evntslog", "info", %(host=h id=ID47 [a@1 b="3" c="d"][e@2 f="g"]), 1_065_910_455_003_000],
      parse(%(<165>1 2003-10-11T22:14:15.003Z h evntslog - ID47 [a@1 b="3" c="d"][e@2 f="g"]))
  end

  def test_a_bracket_in_a_quoted_value_ends_nothing
    assert_equal ["a", "info", %([x y="]\\"]\\\\"] z), nil], parse(%(<13>1 - - a - - [x y="]\\"]\\\\"] z))
    assert_equal "1 - - a - - [x y=\"]", parse(%(<13>1 - - a - - [x y="]))[2]
  end

  def test_the_examples_of_rfc_3164
    assert_equal ["su", "fatal", "host=mymachine 'su root' failed", nil], parse("<34>Oct 11 22:14:15 mymachine su: 'su root' failed")
    assert_equal ["syslog", "info", "Use the BFG!", nil], parse("Use the BFG!")
    assert_equal ["syslog", "warn", "host=h wrote [x]: %%", nil], parse("<28>Oct  1 22:14:15 h wrote [x]: %%")
  end

  def test_what_is_missing_in_rfc_3164_is_not_missed
    { "<15>Oct 11 22:14:15 cron[12]: go" => ["cron", "debug", "pid=12 go", nil], "<11>cron[12] go" => ["cron", "error", "pid=12 go", nil],
      "<12>cron: go" => ["cron", "warn", "go", nil], "<12>http://a" => ["syslog", "warn", "http://a", nil],
      "<12>" => ["syslog", "warn", "", nil], "<12>Oct 11 22:14:15 web" => ["syslog", "warn", "host=web", nil],
      "<12>2026-11-21T19:20:00.5+01:00 web x: y" => ["x", "warn", "host=web y", 1_795_285_200_500_000] }.each do |bytes, expected|
      assert_equal expected, parse(bytes), bytes
    end
  end

  def test_the_ends_of_lines_are_no_part_of_a_message
    assert_equal "a\r\nb", parse("<13>a\r\nb\r\n\0")[2]
    [+"", "\n", "\0\r\n"].each { |bytes| assert_nil parse(bytes) }
  end

  def test_a_priority_has_its_bounds
    assert_equal ["syslog", "debug", "a", nil], parse("<191>a")
    ["<192>a", "<1234>a", "<>a", "<1", "<1a>"].each { |bytes| assert_equal ["syslog", "info", bytes, nil], parse(bytes) }
  end
end
