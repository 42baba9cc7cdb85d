# frozen_string_literal: true

# A server's figures from a shell. The table itself is report_test.rb's.

require "test_helper"
require "io/console"
require "json"
require "pty"
require_relative "../../log/peers"

class CLILogStatusTest < Minitest::Test
  include GyreTest::LogPeers

  GYRE = GyreTest::LogPeers::GYRE

  def status(server, *arguments, env: {})
    [{ "GYRE_LOG_KEY" => nil, "NO_COLOR" => nil, "TERM" => "xterm" }.merge(env), *GYRE.server, "status", "-p", server.port.to_s, *arguments]
  end

  def test_the_table_and_json
    server = log_server(GYRE)
    table = run_program(*status(server))
    assert_equal [0, ""], [table.status.exitstatus, table.err]
    assert_match(/\Agyre log \d.* at 127\.0\.0\.1:#{server.port}, process #{server.pid}, up /, table.out)
    assert_match(/^  OUTPUT +QUEUE.*\n  default\.log /, table.out)
    assert_empty table.out.lines(chomp: true).select { |line| line.size > 80 }
    assert_equal server.pid, JSON.parse(run_program(*status(server, "--json")).out)["pid"]
  end

  def test_the_servers_configuration_has_the_address_and_the_key
    server = log_server(GYRE, { "key" => "sesame" })
    command = [{ "GYRE_LOG_KEY" => nil }, *GYRE.server, "status", "-c", "log.yml"]
    assert_match(/process #{server.pid}/, run_program(*command, chdir: server.folder).out)
    output = run_program(*status(server))
    assert_equal 1, output.status.exitstatus
    assert_match(/does not accept the key/, output.err)
  end

  def test_watching_draws_in_place_and_ends_by_control_c
    server = log_server(GYRE)
    need_terminal
    PTY.open do |reader, terminal|
      terminal.winsize = [24, 80]
      pid = Process.spawn(*status(server, "--watch", "0.05"), in: terminal, out: terminal, err: File::NULL, pgroup: true)
      text = +""
      eventually { (text << reader.readpartial(4096)).scan("\e[H").size > 2 }
      refute_includes text, "\e[2J"
      assert_includes text, "\e[?7l", "lines that are too long are cut"
      Process.kill(:INT, pid)
      ended = nil
      eventually(what: "its end, with the terminal as before") do # which passes on what is written a moment later
        text << reader.readpartial(4096) if reader.wait_readable(0)
        ended ||= reaped(pid)
        ended && text.rindex("\e[?7h").to_i > text.rindex("\e[?7l")
      end
      assert_equal 0, ended.exitstatus
    ensure
      finish_process(pid)
    end
  end

  def test_analogger_is_recognized
    server = log_server(GyreTest::LogPeers::ANALOGGER)
    output = run_program(*status(server))
    assert_equal 1, output.status.exitstatus
    assert_match(/one of Analogger's: it can be logged to, but not looked at/, output.err)
  end

  def test_over_tls_and_without_where_it_is_wanted
    server = log_server(GYRE, start: false)
    certificates = server.start_with_tls
    assert_match(/process #{server.pid}/, run_program(*status(server, "--tls", certificates.authority)).out)
    assert_match(/closed the connection; if it needs TLS, add --tls/, run_program(*status(server)).err)
    assert_match(/TLS handshake with .*certificate verify failed.*--tls CA/, run_program(*status(server, "--tls")).err)
  end
end
