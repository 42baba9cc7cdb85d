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

  # Proxies write it as before a message of RFC 3164; rsyslog leaves it out as well.
  def test_a_colon_behind_the_name_in_rfc_5424_is_left_out
    assert_equal %w[squid syslog :], %w[squid: -: :].map { |name| parse("<13>1 - - #{name} - - - x")[0] }
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

  # rsyslog takes these apart as well.
  def test_what_devices_make_of_rfc_3164
    { "<134>Nov 1 19:20:00 web1 shop[5]: x" => ["shop", "host=web1 pid=5 x"], "<134>Nov 21 2026 19:20:00 web1 shop: x" => ["shop", "host=web1 x"],
      "<134>2026 nov 21 19:20:00.123 web1 shop: x" => ["shop", "host=web1 x"], "<134>Nov 21 19:20:00 web1 shop:x" => ["shop", "host=web1 x"],
      "<13> Nov 21 19:20:00 10.0.0.1 a/b: x" => ["a/b", "host=10.0.0.1 x"], "<13>Nov 21 19:20:00 2001:db8::1 a: x" => ["a", "host=2001:db8::1 x"],
      "<13>2026-11-21T19:20:00 web1 a: x" => ["a", "host=web1 x"], "Nov 21 19:20:00 web1 shop[5]: x" => ["shop", "host=web1 pid=5 x"],
      "<30>Nov 21 19:20:00 dock nginx:1.25[47]: GET /" => ["nginx", "host=dock 1.25[47]: GET /"] }.each do |bytes, (service, message)|
      assert_equal [service, message], parse(bytes).values_at(0, 2), bytes
    end
    assert_equal ["shop", "info", "host=web1 x", 1_795_288_800_123_456], parse("<13>2026-11-21T19:20:00.123456789Z web1 shop: x")
  end

  def test_json_and_other_text_is_not_a_tag
    { %(<134>Nov 21 19:20:00 web1 {"level": "info"}) => %(host=web1 {"level": "info"}), %(<134>{"a": 1, "b": 2}) => %({"a": 1, "b": 2}),
      "<13>12: x" => "12: x", "<13>\u00e9t\u00e9: x" => "\u00e9t\u00e9: x".b, "<13>C:\\x" => "C:\\x", "<13>a=b: c" => "a=b: c",
      "Nov 21 19:20:00 it is text" => "Nov 21 19:20:00 it is text", "hello: there" => "hello: there" }.each do |bytes, message|
      assert_equal ["syslog", message], parse(bytes).values_at(0, 2), bytes
    end
  end

  def test_the_counters_of_cisco_are_no_services
    { "<189>123: Nov 21 19:20:00.123: %SYS-5-X: y" => "id=123 %SYS-5-X: y",
      "<189>123: r1: *Nov 21 19:20:00 UTC: %SYS-5-X: y" => "host=r1 id=123 %SYS-5-X: y",
      "<189>45: %SYS-5-X: y" => "id=45 %SYS-5-X: y", "<166>Nov 21 2026 19:20:00: %ASA-6-1: y" => "%ASA-6-1: y",
      "<166>:Nov 21 19:20:00 UTC: %ASA-6-1: y" => "%ASA-6-1: y",
      "<166>Nov 21 19:20:00 fw : %ASA-6-1: y" => "host=fw %ASA-6-1: y" }.each do |bytes, message|
      assert_equal ["syslog", message], parse(bytes).values_at(0, 2), bytes
    end
  end

  def test_rfc_5424_without_structured_data
    assert_equal ["app", "info", "host=h pid=web.3 Starting process", 1_389_300_000_000_000],
      parse("<45>1 2014-01-09T20:40:00+00:00 h app web.3 - Starting process")
    assert_equal "1 - h app web.3 - Starting process", parse("<45>1 - h app web.3 - Starting process")[2]
  end

  def test_an_origin_is_shown_as_a_log_wants_it
    sinks = { nil => "pid=5 x", true => "host=1.2.3.4 pid=5 x", false => "x" }.map do |origin, expected|
      [ingest.sink(origin: origin), expected]
    end
    ingest.route(nil, nil, sinks.map(&:first))
    ingest.datagram(:syslog, "<13>a[5]: x", LogIngests::TIME_NS, "1.2.3.4")
    sinks.each { |sink, expected| assert_equal ["a|info|#{expected}"], lines(sink) }
    redis = sink(format: :redis)
    ingest.datagram(:syslog, "<13>Nov 21 19:20:00 h a[5]: x", LogIngests::TIME_NS, "1.2.3.4")
    assert_includes redis.take.first, "$4\r\nhost\r\n$1\r\nh\r\n$3\r\npid\r\n$1\r\n5\r\n$8\r\nfacility\r\n$4\r\nuser\r\n"
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
