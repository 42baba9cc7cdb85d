# frozen_string_literal: true

# Following a server's log from a shell.

require "test_helper"
require "json"
require "pty"
require_relative "../../log/peers"

class CLILogTailTest < Minitest::Test
  include GyreTest::LogPeers

  GYRE = GyreTest::LogPeers::GYRE

  def setup
    super
    @server = log_server(GYRE)
  end

  # Returns the command of `gyre log tail`.
  def tail(*arguments, **env)
    [without_bundle.merge("GYRE_LOG_KEY" => nil, "NO_COLOR" => nil, "TERM" => "xterm").merge(env.transform_keys(&:to_s)),
     *GYRE.server, "tail", "-p", @server.port.to_s, *arguments]
  end

  def log(*frames)
    @server.connect do |socket|
      socket.write(GyreTest::LogPeers.frame("a", "authentication", ""))
      assert_equal "accepted\n", socket.gets
      frames.each { |frame| socket.write(GyreTest::LogPeers.frame(*frame)) }
      socket.close_write
      socket.read
    end
  end

  # Logs marks until the first is seen, so that what is logged from then on is.
  def until_it_follows(out)
    eventually(what: "the first line") do
      log(%w[a info mark])
      out.wait_readable(0.1)
    end
    out.gets # whole, for what is left is read by lines
  end

  # Returns the next line that is no mark.
  def line(out)
    text = out.gets
    text = out.gets while text.include?("mark")
    text
  end

  def test_lines_as_they_are_written_of_one_service_or_all
    with_subprocess(*tail) do |pid, out, err|
      until_it_follows(out)
      log(%w[b warn beta], ["a", "error", "two\nlines"])
      assert_match(%r{\A\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\|b\|warn\|beta\n\z}, line(out))
      assert_includes line(out), "|a|error|two\\nlines\n"
      Process.kill(:INT, pid)
      assert_equal [0, ""], [Process.wait2(pid).last.exitstatus, err.read]
    end
  end

  def test_lines_of_one_service
    with_subprocess(*tail("a")) do |_pid, out, _err|
      until_it_follows(out)
      log(%w[b info other], %w[a info mine])
      assert_includes line(out), "|a|info|mine\n"
    end
  end

  def test_json
    with_subprocess(*tail("--json")) do |_pid, out, _err|
      until_it_follows(out)
      log(["b", "info", "two\nlines"])
      assert_equal ["b", "info", "two\nlines"], JSON.parse(line(out)).values_at("service", "severity", "message")
    end
  end

  # Returns what a terminal shows of a message.
  def on_a_terminal(frame, **env)
    need_terminal
    PTY.open do |reader, terminal|
      pid = Process.spawn(*tail(**env), in: File::NULL, out: terminal, err: File::NULL, pgroup: true)
      until_it_follows(reader)
      log(frame)
      line(reader)
    ensure
      finish_process(pid)
    end
  end

  def test_a_terminal_gets_colours_and_nothing_that_could_harm_it
    line = on_a_terminal(["b", "error", "boom\e[2J"])
    assert_match(/\A\e\[2m\d\d:\d\d:\d\d\e\[0m \e\[36mb\e\[0m \e\[31merror\e\[0m \e\[31mboom/, line)
    refute_includes line, "\e[2J"
  end

  def test_no_color
    assert_match(/\A\d\d:\d\d:\d\d b error boom\r\n\z/, on_a_terminal(%w[b error boom], NO_COLOR: "1"))
  end

  def test_it_waits_for_a_server_that_has_gone
    with_subprocess(*tail) do |_pid, out, err|
      until_it_follows(out)
      @server.stop
      assert_match(/the log server at 127\.0\.0\.1:\d+ has gone; waiting for it/, err.gets)
      @server.start
      assert_match(/is back$/, err.gets)
      log(%w[a info again])
      assert_includes line(out), "|again\n"
    end
  end

  def test_it_ends_without_a_reader
    with_subprocess(*tail) do |pid, out, err|
      until_it_follows(out)
      out.close
      status = eventually { log(%w[a info mark]) && Process.wait2(pid, Process::WNOHANG) }.last
      assert_equal [0, ""], [status.exitstatus, err.read]
    end
  end

  def test_what_cannot_be_followed
    @server.stop
    output = run_program(*tail)
    assert_equal [1, "gyre log tail: no server listens on tcp://127.0.0.1:#{@server.port}. Start a server there with `gyre log`, " \
                     "or name another with -h and -p\n"], [output.status.exitstatus, output.err]
    assert_equal 2, run_program(*tail("a", "b")).status.exitstatus
  end

  def test_a_wrong_key_is_reported_with_a_remedy
    server = log_server(GYRE, { "key" => "sesame" })
    output = run_program({ "GYRE_LOG_KEY" => "wrong" }, *GYRE.server, "tail", "-p", server.port.to_s)
    assert_equal 1, output.status.exitstatus
    assert_match(/does not accept the key\. Put it into GYRE_LOG_KEY/, output.err)
  end
end
