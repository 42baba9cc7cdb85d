# frozen_string_literal: true

# The status as a table: every line fits, and what is wrong catches the eye.

require "test_helper"
require "gyre/cli/terminal/paint"
require "gyre/cli/log/report"

class CLILogReportTest < Minitest::Test
  STATUS = {
    "version" => "1.2.3", "pid" => 7, "uptime_s" => 93_784.5, "messages" => 1_234_567, "filtered" => 12,
    "rates" => { "1" => 12_345.6, "10" => 99.94, "60" => 0.0 }, "bytes" => 1536, "paused" => false, "pauses" => 2, "connections" => 2,
    "clients" => [{ "peer" => "127.0.0.1:5", "kind" => "records", "service" => "web", "messages" => 10, "bytes" => 2048 },
                  { "peer" => "127.0.0.1:6", "kind" => "status", "service" => "", "messages" => 0, "bytes" => 9 }],
    "sessions" => 1,
    "outputs" => [{ "output" => "log/web.log", "bytes" => 0, "written" => 5 << 30, "trouble" => nil, "unwritten_s" => 0.0, "unsynced_s" => 12.34 }],
    "services" => { "web" => 1_234_000, "a\e[2J" => 567 }, "loop_lag_s" => { "p50" => 0.0001, "p99" => 0.002, "max" => nil }
  }.freeze

  def lines(columns: 80, **changes)
    status = STATUS.merge(changes.transform_keys(&:to_s))
    Gyre::CLI::Log::Report.new(status, "tcp://127.0.0.1:6766", Gyre::CLI::Paint.new(false), columns).lines
  end

  def test_a_quiet_server
    assert_equal <<~TEXT, lines.map { |line| "#{line}\n" }.join
      gyre log 1.2.3 at 127.0.0.1:6766, process 7, up 26 h
        messages     1,234,567, 12 filtered by severity
        a second     12,346 (1 s), 99.9 (10 s), 0.0 (60 s)
        in memory    1.5 KB, reading, paused 2 times so far
        loop lag     100 us (p50), 2 ms (p99), - (max)
        connections  2, 1 acknowledged clients remembered

        OUTPUT       QUEUE  WRITTEN  UNWRITTEN  UNSYNCED
        log/web.log    0 B     5 GB          -      12 s

        CLIENT       KIND     SERVICE  MESSAGES  BYTES
        127.0.0.1:5  records  web            10   2 KB

        SERVICE    MESSAGES
        web       1,234,000
        a\\e[2J          567
    TEXT
  end

  def test_trouble_is_reported
    output = STATUS["outputs"].first.merge("trouble" => "disk full", "spilled" => 5 << 20)
    text = lines(outputs: [output], paused: true).join("\n")
    assert_includes text, "  ! log/web.log: disk full"
    assert_includes text, "  ! log/web.log: 5 MB are spilled to disk"
    assert_includes text, "reading is paused"
  end

  def test_no_text_of_the_server_is_obeyed_by_the_terminal
    output = STATUS["outputs"].first.merge("trouble" => "disk\e[2J full\n")
    text = lines(outputs: [output], version: "\e[31m1", pid: "\a", rates: { "\e" => 1.0 }).join("\n")
    assert_includes text, "  ! log/web.log: disk\\e[2J full\\n"
    refute_match(/[\e\a]/, text)
  end

  def test_every_line_fits
    long = STATUS["outputs"].first.merge("output" => "/a/very/#{"long/" * 20}path.log", "trouble" => "x" * 200)
    client = STATUS["clients"].first.merge("peer" => "[2001:db8::1]:65535 (CN=#{"name" * 20})")
    assert_empty lines(outputs: [long], clients: [client]).select { |line| line.size > 80 }
    assert_includes lines(outputs: [long]).join, "long/path.log"
  end

  def test_the_busiest_and_how_many_more
    clients = Array.new(13) { |index| STATUS["clients"].first.merge("peer" => "peer #{index}", "messages" => index) }
    text = lines(clients: clients, services: {}).join("\n")
    assert_match(/peer 12 .*peer 3 .*\n  and 3 more/m, text)
    refute_match(/peer 2 |SERVICE +MESSAGES$/, text.lines.drop(11).join)
  end

  def test_a_server_that_sends_little_is_shown_as_well
    assert_equal 6, Gyre::CLI::Log::Report.new({}, "x", Gyre::CLI::Paint.new(true), 80).lines.size
  end
end
