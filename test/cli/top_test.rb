# frozen_string_literal: true

# `gyre top` as users run it: once, and in a terminal (tmux).

require "test_helper"
require "json"
require "socket"
require "web/serving"
require "gyre/cli/top"

class CLITopTest < Minitest::Test
  include GyreTest::Serving

  def test_once_prints_one_plain_look
    serve("--metrics", "127.0.0.1:0") do |program|
      waiting = program.request("/wait")
      program.expect(/waiting/)
      output = gyre("top", "--once", address(program))
      assert_equal 0, output.status.exitstatus, output.err
      assert_match(/^gyre .* process #{program.pid}  1 worker  http:/, output.out)
      assert_match(%r{ 0 +GET /wait +127\.0\.0\.1$}, output.out)
      refute_includes output.out, "\e"
      File.write(File.join(program.folder, "go"), "")
      waiting.read
      waiting.close
    end
  end

  def test_without_a_terminal_it_is_one_look_too_and_a_state_file_leads_to_the_server
    serve("-w", "1", "--state", "gyre.state") do |program|
      text = eventually do
        output = gyre("top", "--state", File.join(program.folder, "gyre.state"))
        output.out if output.out.match?(/^1 +\d+ +[\d.]+ /)
      end
      assert_includes text, "1 worker"
    end
  end

  def test_an_invalid_server_is_an_error
    closed = free_port
    output = gyre("top", "--once", "127.0.0.1:#{closed}")
    assert_equal [1, ""], [output.status.exitstatus, output.out]
    assert_match(/\Agyre top: connect to tcp:.*refused\. Give the address/, output.err)
    assert_equal 2, gyre("top", "ftp://x").status.exitstatus
    assert_match(/state/, gyre("top").err)
  end

  def test_another_program_at_that_address_is_told_apart
    ["HTTP/1.1 404 Not Found\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n[1]", "HTTP/1.1 200 OK\r\n\r\nhello", "SSH-2.0-x\r\n", ""].each do |response|
      server = TCPServer.new("127.0.0.1", 0)
      thread = Thread.new do
        client = server.accept
        client.readpartial(1000)
        client.write(response)
        client.close
      end
      client = Gyre::CLI::ControlClient.new("127.0.0.1:#{server.local_address.ip_port}")
      assert_raises(Gyre::CLI::ControlClient::NoAnswer, response.inspect) { client.status }
    ensure
      thread.join
      server.close
    end
  end

  def test_in_a_terminal_it_is_drawn_again_resized_and_leaves_it_as_it_was
    in_tmux do |tmux, program|
      before = stty(tmux)
      tmux.type("#{RbConfig.ruby} -I#{File.join(ROOT, "lib")} #{EXE} top --interval 0.1 #{address(program)}")
      tmux.expect(/no request is running/)
      waiting = program.request("/wait")
      tmux.expect(%r{GET /wait +127\.0\.0\.1})
      tmux.run("resize-window", "-t", "top", "-x", "60", "-y", "12")
      tmux.expect(/\A.{0,60}$/)
      assert_operator tmux.screen.lines.map { |line| line.chomp.length }.max, :<=, 60
      tmux.key("q")
      File.write(File.join(program.folder, "go"), "")
      waiting.read
      waiting.close
      tmux.expect(/^ready:$/)
      refute_includes tmux.screen, "requests/s", "the screen is the shell's again"
      assert_equal before, stty(tmux)
    end
  end

  BUSY = <<~'RUBY'
    CPU = Process::CLOCK_THREAD_CPUTIME_ID
    def compute(seconds)
      end_s = Process.clock_gettime(CPU) + seconds
      nil while Process.clock_gettime(CPU) < end_s
    end
    run(lambda do |env|
      env["gyre.route"] = "/organizations/:organization_id/projects/:project_id/reports/yearly" if env["PATH_INFO"].start_with?("/o")
      compute(env["PATH_INFO"] == "/busy" ? 0.05 : 0.002)
      [200, {}, []]
    end)
  RUBY

  # A single look has the figures of the server's whole life.
  def test_r_shows_routes_and_goes_back
    in_tmux(app: BUSY) do |tmux, program|
      top = "#{RbConfig.ruby} -I#{File.join(ROOT, "lib")} #{EXE} top --interval 600 #{address(program)}"
      tmux.type(top)
      tmux.expect(/no request is running/)
      tmux.key("r")
      idle = routes(tmux) { |found| found["(loop)"] }
      assert_equal ["- -"], idle.values.map { |_, *counts| counts.first(2).join(" ") }.uniq, "no request has come"
      tmux.key("q")
      10.times { program.get("/busy") }
      20.times { |number| program.get("/o/#{number}") }
      tmux.expect(/^ready:$/)
      tmux.type(top)
      tmux.expect(/no request is running/)
      tmux.key("r")
      rows = routes(tmux) { |found| found["/busy"] }
      cpu, rate, each, blocked, longest, objects = rows.fetch("/busy")
      assert_match(/\A\d+% \d+\.\d 5\d ms \d+% \d+ ms [\d,.]+\z/, [cpu, rate, each, blocked, longest, objects].join(" "))
      assert_in_delta 50, each.to_i, 8
      assert_operator longest.to_i, :>=, 50
      assert_in_delta rate.to_f * 0.05 * 100, cpu.to_i, (rate.to_f * 0.05 * 15) + 1
      long = rows.keys.grep(%r{\A/organizations}).first
      assert_equal "/organizations/:organization_id/projects/:project_id/reports/yearly"[-10..], long[-10..]
      assert_operator rows.fetch(long)[2].to_f, :<, 5
      tmux.run("resize-window", "-t", "top", "-x", "60", "-y", "12")
      tmux.expect(/BLOCKED  ROUTE/)
      assert_operator tmux.screen.lines.map { |line| line.chomp.length }.max, :<=, 60
      assert_match(%r{%  /organiz\.\.reports/yearly$}, tmux.screen)
      tmux.key("r")
      tmux.expect(/no request is running/)
      tmux.key("q")
      tmux.expect(/^ready:$/)
    end
  end

  def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again
    in_tmux do |tmux, program|
      before = stty(tmux)
      tmux.type("set -m; #{RbConfig.ruby} -I#{File.join(ROOT, "lib")} #{EXE} top --interval 0.1 #{address(program)}")
      tmux.expect(/no request is running/)
      tmux.key("C-z")
      tmux.expect(/Stopped/)
      refute_includes tmux.screen, "requests/s", "the screen is the shell's"
      assert_equal before, stty(tmux)
      tmux.type("fg")
      tmux.expect(/no request is running/)
      waiting = program.request("/wait")
      tmux.expect(%r{GET /wait +127\.0\.0\.1})
      tmux.key("q")
      File.write(File.join(program.folder, "go"), "")
      waiting.read
      waiting.close
      tmux.expect(/^ready:$/)
      assert_equal before, stty(tmux)
    end
  end

  def test_a_signal_restores_the_terminal_and_a_server_that_ends_is_reported
    in_tmux do |tmux, program|
      before = stty(tmux)
      tmux.type("#{RbConfig.ruby} -I#{File.join(ROOT, "lib")} #{EXE} top --interval 0.1 #{address(program)}")
      tmux.expect(/no request is running/)
      program.signal("TERM")
      program.status
      tmux.expect(/refused/i)
      tmux.key("C-c")
      tmux.expect(/^ready:$/)
      refute_includes tmux.screen, "requests/s"
      assert_equal before, stty(tmux)
    end
  end

  private

  ROOT = GyreTest::Helpers::ROOT
  EXE = GyreTest::Helpers::EXE
  private_constant :ROOT, :EXE

  # A tmux server of its own, with one window.
  class Tmux
    def initialize(test, program, socket)
      @test = test
      @command = [program, "-S", socket, "-f", "/dev/null"]
    end

    def run(*arguments)
      IO.popen([{ "TMUX" => nil, "LC_ALL" => "C.UTF-8" }, *@command, *arguments], err: File::NULL, &:read)
    end

    def screen = run("capture-pane", "-p", "-t", "top")

    def type(text) = run("send-keys", "-t", "top", text, "Enter")

    def key(name) = run("send-keys", "-t", "top", name)

    def expect(pattern)
      @test.eventually(what: "#{pattern.inspect} on the screen") { screen.match(pattern) }
    end
  end
  private_constant :Tmux

  def in_tmux(**options)
    need_terminal
    path = need_program("tmux")
    serve("--metrics", "127.0.0.1:0", **options) do |program|
      tmux = Tmux.new(self, path, File.join(program.folder, "tmux"))
      tmux.run("new-session", "-d", "-s", "top", "-x", "120", "-y", "30", "env PS1='ready: ' ENV= NO_COLOR= sh")
      tmux.expect(/^ready:$/)
      yield tmux, program
    ensure
      tmux&.run("kill-server")
    end
  end

  # Returns the cells of each route on the screen.
  def routes(tmux)
    eventually do
      rows = tmux.screen[/ROUTE OR TASK\n(.*)/m, 1].to_s.lines.filter_map { |line| line.strip.split(/ {2,}/) if line.include?("%") }
      rows = rows.to_h { |*cells, label| [label, cells] }
      rows if rows.any? && (!block_given? || yield(rows))
    end
  end

  # The terminal's mode, by the shell in it.
  def stty(tmux)
    @number = @number.to_i + 1
    tmux.run("send-keys", "-t", "top", "clear; stty -g; echo mode-$((#{@number} + 0))", "Enter")
    tmux.expect(/^([0-9a-f:]{20,})\n?([0-9a-f:]*)\nmode-#{@number}$/).then { |match| match[1] + match[2] }
  end

  def address(program) = program.expect(%r{metrics on (http://\S+)/metrics})[1]
end
