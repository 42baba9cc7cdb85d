# frozen_string_literal: true

# `gyre ctl` and the texts of a server that another user may have changed.

require "json"
require "socket"
require "test_helper"
require "tmpdir"
require "gyre/cli/ctl"

class CLICtlTest < Minitest::Test
  STATUS = { pid: 1, version: "1", urls: ["\e]0;title\a"], count: 1, workers: [], programs: [{ command: "\e[2J\u009b", pid: 3 }],
             restart: { kind: "hot", state: "failed", error: "no\e[31m code\nfrom a:1\nfrom b:2" } }.freeze

  def test_no_text_of_the_server_reaches_the_terminal_as_a_command
    out, err = answering(status: STATUS, command: { error: "\e[31mred\nfrom a:1\r" })
    refute_match(/[\e\a\r\u009b]/, out + err)
    assert_includes out, "process 1, Gyre 1, \\e]0;title\\x07\n"
    assert_equal "gyre ctl: reload: \\e[31mred\nfrom a:1\\r\n", err
  end

  def test_a_status_has_one_line_of_a_trace
    out, = answering(status: STATUS)
    assert_includes out, "last restart: hot, failed: no\\e[31m code (the server's log has the other lines, and so has --json)\n"
    refute_includes out, "from a:1"
  end

  def test_json_has_all_of_it
    out, = answering("--json", status: STATUS)
    refute_match(/[\e\a\u009b]/, out)
    assert_equal JSON.parse(JSON.generate(STATUS)), JSON.parse(out)
  end

  def test_a_state_file_of_another_user_is_no_more_trusted
    _, err = answering(status: STATUS, control: "unix:///nonexistent\e[2J", pid: "\e[2J")
    assert_includes err, "\\e[2J"
    refute_includes err, "\e"
  end

  private

  # Runs status, and a reload if the answer to it is given. Returns what is printed.
  def answering(*flags, status:, command: nil, control: nil, pid: 1)
    Dir.mktmpdir do |folder|
      path = "#{folder}/control"
      File.write("#{folder}/state", JSON.generate(pid: pid, control: control || "unix://#{path}"))
      server = UNIXServer.new(path)
      thread = Thread.new { loop { answer(server.accept, status, command) } }
      out, err = StringIO.new, StringIO.new
      ["status", ("reload" if command)].compact.each do |word|
        Gyre::CLI.start(["ctl", "-S", "#{folder}/state", *flags, word], out: out, err: err)
      end
      [out.string, err.string]
    ensure
      thread&.kill&.join
      server&.close
    end
  end

  def answer(client, status, command)
    body = client.readpartial(1000).start_with?("GET") ? status : command
    client.write("HTTP/1.1 200 OK\r\n\r\n#{JSON.generate(body)}")
  ensure
    client.close
  end
end
