# frozen_string_literal: true

# Messages from a shell, and what the exit status shows.

require "test_helper"
require "support/processes"
require_relative "../../log/peers"

class CLILogSendTest < Minitest::Test
  include GyreTest::LogPeers

  GYRE = GyreTest::LogPeers::GYRE
  ENVIRONMENT = { "GYRE_LOG_KEY" => nil }.freeze

  def send_to(port, *arguments, stdin: "")
    run_program(ENVIRONMENT, *GYRE.server, "send", "-p", port.to_s, *arguments, stdin: stdin)
  end

  def test_a_message_is_stored_when_it_returns
    server = log_server(GYRE, { "interval" => 30 })
    output = send_to(server.port, "backup", "info", "all", "is well")
    assert_equal [0, "", ""], [output.status.exitstatus, output.out, output.err]
    assert_equal ["all is well"], server.messages(service: "backup")
  end

  def test_each_line_of_standard_input
    server = log_server(GYRE)
    lines = ["one", "", "d\xC3\xA9j\xC3\xA0 \xFF".b, "x" * 100_000, *Array.new(5000, &:to_s), "no newline"]
    output = send_to(server.port, "backup", "warn", stdin: lines.join("\n").b)
    assert_equal [0, ""], [output.status.exitstatus, output.err]
    assert_equal lines.map(&:b), server.messages(service: "backup")
  end

  def test_a_unix_socket_is_an_address_as_good_as_tcp
    Dir.mktmpdir do |folder|
      address = "unix://#{folder}/s"
      gone = run_program(ENVIRONMENT, *GYRE.server, "send", "-a", address, "backup", "info", "x")
      assert_equal 1, gone.status.exitstatus
      assert_match(/\Agyre log send: no server listens on #{address}\./, gone.err)
      File.write("#{folder}/log.yml", "bind: '#{address}'\ndefault_log: #{folder}/log\n")
      with_subprocess(ENVIRONMENT, *GYRE.server, "-c", "#{folder}/log.yml") do |_pid, _out, err|
        assert_includes err.gets, "listens on #{address}"
        [["-a", address], ["-c", "#{folder}/log.yml"]].each do |where|
          output = run_program(ENVIRONMENT, *GYRE.server, "send", *where, "backup", "info", "by #{where[0]}")
          assert_equal [0, ""], [output.status.exitstatus, output.err]
        end
        assert_equal ["by -a", "by -c"], File.readlines("#{folder}/log", chomp: true).grep(/backup/).map { |line| line[/[^|]*\z/] }
        status = run_program(ENVIRONMENT, *GYRE.server, "status", "-a", address, "--json")
        assert_equal [0, ""], [status.status.exitstatus, status.err]
      end
    end
  end

  def test_what_is_not_acknowledged_in_time_is_reported
    server = log_server(GYRE)
    GyreTest::Processes.stop(server.pid)
    output = send_to(server.port, "--within", "0.2", "backup", "info", "x")
    Process.kill(:CONT, server.pid)
    said = "gyre log send: tcp://127.0.0.1:#{server.port} does not answer; if it needs TLS, add --tls\n"
    assert_equal [1, said], [output.status.exitstatus, output.err]
  end

  def test_a_missing_server_is_reported_at_once_unless_a_time_to_wait_is_given
    port = free_port.to_s
    { WITHIN_S: [], FIRST_TRY_S: %w[--within 0.1] }.each do |name, flags| # the longest waits for a server that is there
      output = ruby("-rgyre/cli/log", "-rgyre/cli/log/send", "-e", <<~RUBY, "send", "-p", port, *flags, "backup", "info", "x", env: ENVIRONMENT)
        Gyre::CLI::Log::Send.send(:remove_const, :#{name})
        Gyre::CLI::Log::Send::#{name} = 3600
        exit Gyre::CLI::Log.start(ARGV)
      RUBY
      assert_equal 1, output.status.exitstatus
      assert_match(/\Agyre log send: no server listens on tcp.*\n\z/, output.err)
    end
    assert_operator duration_s { send_to(port, "--within", "1", "backup", "info", "x") }, :>, 1
  end

  def test_words_that_are_no_text_are_refused
    server = log_server(GYRE)
    ["caf\xE9".b, "\xFF".b].each do |broken|
      output = run_program(ENVIRONMENT.merge("LC_ALL" => "C.UTF-8"), *GYRE.server, "send", "-p", server.port.to_s, "backup", "info", broken)
      assert_equal 2, output.status.exitstatus
      assert_match(/\Agyre log send: ".*\?" is not valid UTF-8, the encoding of this terminal/, output.err)
    end
    assert_empty server.messages(service: "backup")
  end

  def test_what_the_spool_keeps_comes_with_the_next_one
    server = log_server(GYRE, start: false)
    Dir.mktmpdir do |folder|
      %w[first second].each do |lines|
        output = send_to(server.port, "--spool", folder, "backup", "info", stdin: "#{lines} a\n#{lines} b\n")
        assert_equal 1, output.status.exitstatus
        assert_match(/\Agyre log send: no server listens on tcp.*; 2 messages are kept in #{Regexp.escape(folder)}\n\z/, output.err)
      end
      server.start
      output = send_to(server.port, "--spool", folder, "backup", "info", "third")
      assert_equal [0, ""], [output.status.exitstatus, output.err]
      assert_equal ["first a", "first b", "second a", "second b", "third"], server.messages(service: "backup").sort
      assert_empty Dir.children(folder)
    end
  end

  def test_a_spool_keeps_what_a_wrong_key_does_not_let_through
    server = log_server(GYRE, { "key" => "sesame" })
    Dir.mktmpdir do |folder|
      output = send_to(server.port, "--spool", folder, "backup", "info", stdin: "a\nb\n")
      assert_equal 1, output.status.exitstatus
      assert_match(/does not accept the key\. .*; 2 messages are kept in /, output.err)
      server.messages(service: "backup").empty? || flunk("the key was not needed")
      kept = run_program({ "GYRE_LOG_KEY" => "sesame" }, *GYRE.server, "send", "-p", server.port.to_s, "--spool", folder, "backup", "info", "c")
      assert_equal [0, ""], [kept.status.exitstatus, kept.err]
      assert_equal %w[a b c], server.messages(service: "backup").sort
    end
  end

  def test_a_server_that_comes_while_lines_are_read
    server = log_server(GYRE, start: false)
    Dir.mktmpdir do |folder|
      input, lines = IO.pipe
      command = [*GYRE.server, "send", "-p", server.port.to_s, "--spool", "spool", "backup", "info"]
      pid = Process.spawn(ENVIRONMENT, *command, chdir: folder, in: input, out: File::NULL, err: File.join(folder, "err"))
      input.close
      lines.write("one\n")
      eventually { !Dir.empty?(File.join(folder, "spool")) if Dir.exist?(File.join(folder, "spool")) }
      server.start
      eventually { server.messages(service: "backup") == ["one"] }
      lines.write("two\n")
      lines.close
      assert_equal [0, ""], [Process.wait2(pid).last.exitstatus, File.read(File.join(folder, "err"))]
      assert_equal %w[one two], server.messages(service: "backup")
    end
  end

  def test_a_line_that_is_too_long_is_stored_cut_and_its_end_says_so
    server = log_server(GYRE)
    output = send_to(server.port, "backup", "info", stdin: "a\n#{"x" * 1_100_000}\nb\n")
    assert_equal [0, ""], [output.status.exitstatus, output.err]
    first, cut, last = server.messages(service: "backup")
    assert_equal %w[a b], [first, last]
    assert_match(/\Ax+ \[cut: the message has 1100000 bytes\]\z/, cut)
    assert_equal 2, send_to(server.port, "--unacknowledged", "backup", "info", "x" * 9000).status.exitstatus
  end

  def test_no_lines_for_a_server_that_is_away
    Dir.mktmpdir do |folder|
      output = send_to(free_port, "--spool", folder, "backup", "info")
      assert_match(/\Agyre log send: no server listens on [^;]*\n\z/, output.err)
    end
  end

  def test_neither_a_server_nor_room
    lines = "#{"x" * 100_000}\n" * 200
    output = send_to(free_port, "--spool", "/proc/none", "backup", "info", stdin: lines)
    assert_equal 1, output.status.exitstatus
    assert_match(/\Agyre log send: line 1\d\d and all later ones were not taken: .* no more room /, output.err)
    assert_match(%r{; 1\d\d messages may be lost; the spool in /proc/none }, output.err)
  end

  def test_a_spool_that_takes_nothing
    output = send_to(free_port, "--spool", "/proc/none", "backup", "info", "x")
    assert_equal 1, output.status.exitstatus
    assert_match(%r{\Agyre log send: no server listens .*; 1 message may be lost; the spool in /proc/none takes nothing.*\n\z}, output.err)
  end

  def test_a_wrong_key
    server = log_server(GYRE, { "key" => "sesame" })
    output = send_to(server.port, "backup", "info", "x")
    assert_equal 1, output.status.exitstatus
    assert_match(/does not accept the key\. Put it into GYRE_LOG_KEY/, output.err)
  end

  def test_an_unknown_certificate
    server = log_server(GYRE, start: false)
    certificates = server.start_with_tls
    output = send_to(server.port, "--tls", certificates.authority("stranger"), "backup", "info", "x")
    assert_equal 1, output.status.exitstatus
    assert_match(/\Agyre log send: .*certificate verify failed.*--tls CA\n\z/, output.err)
    assert_equal 0, send_to(server.port, "--tls", certificates.authority, "backup", "info", "x").status.exitstatus
  end

  def test_to_analogger
    server = log_server(GyreTest::LogPeers::ANALOGGER)
    assert_match(/does not support acknowledged logging/, send_to(server.port, "a", "info", "x").err)
    assert_equal 0, send_to(server.port, "--unacknowledged", "a", "info", "x").status.exitstatus
    eventually { server.messages == ["x"] }
  end

  def test_misuse
    output = send_to(1, "backup")
    assert_equal [2, "gyre log send: name the service and the severity, as in: gyre log send backup info done\n" \
                     "Run `gyre log send --help` for the flags.\n"], [output.status.exitstatus, output.err]
  end
end
