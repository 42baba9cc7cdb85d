# frozen_string_literal: true

# Runs the programs of examples/async, and Falcon with the application there, on Gyre's selector.

require "test_helper"
require "net/http"
require "socket"
require "gyre/loop"
require "support/async_gems"

class AsyncExamplesTest < Minitest::Test
  include GyreTest::AsyncGems

  FOLDER = File.join(ROOT, "examples", "async")
  PROGRAMS = %w[child_processes net_http queue tasks tcp_echo].freeze

  def self.time_limit_s = 120

  def setup
    need_async
  end

  # Yields what the program prints, and what runs it again and returns that.
  def check_output(program)
    output = lambda do
      run = async_ruby(File.join(FOLDER, "#{program}.rb"))
      assert_equal "", run.err
      assert_predicate run.status, :success?
      run.out
    end
    yield output.call, output
  end

  def test_every_program_is_tested
    assert_equal PROGRAMS.map { |name| "#{name}.rb" }.push("config.ru").sort, Dir.children(FOLDER).sort
  end

  def test_tasks_with_barrier_semaphore_and_timeout
    check_output("tasks") do |out, again|
      assert_match(/^10 downloads, 3 at a time\ntimeout: \d+ ticks so far\nthe sleeper cleans up\n/, out)
      assert_operator out[/(\d+) ticks/, 1].to_i, :>, 0
      assert_at_once(/^done in ([\d.]+) s/, out, 10, &again)
    end
  end

  def test_a_server_and_a_hundred_clients
    check_output("tcp_echo") { |out| assert_equal %(300 answers from 100 clients, such as "CLIENT 0 TURN 0"\n), out }
  end

  def test_net_http_requests_run_at_once
    check_output("net_http") do |out, again|
      assert_equal 5, out.scan("price of").size
      assert_at_once(/5 requests in ([\d.]+) s/, out, 2.5, &again)
    end
  end

  def test_child_processes_run_at_once
    check_output("child_processes") do |out, again|
      ["system: 0", "backticks: hello", "Process.wait: 3", "IO.popen: LOUDER"].each { |line| assert_includes out, line }
      assert_at_once(/4 processes in ([\d.]+) s/, out, 2, &again)
    end
  end

  def test_queues_of_tasks_and_threads
    check_output("queue") do |out|
      assert_match(/\Asum 45, never more than [12] in the queue\nthe thread gave 0\nthe thread gave 1\nthe thread gave 2\n\z/, out)
    end
  end

  def test_falcon_serves_streams_and_ends_in_peace
    port = free_port # Falcon does not tell which one it got
    command = async_command("-rgyre/async", "-S", "falcon", "serve", "--count", "1", "--bind", "http://127.0.0.1:#{port}",
                            "--config", File.join(FOLDER, "config.ru"))
    with_subprocess(*command) do |pid, _, err|
      eventually(what: "Falcon's listening") { reachable?(port) }
      assert_equal "hello from Async::Reactor\n", Net::HTTP.get("127.0.0.1", "/", port)
      assert_equal "LOUDER" * 50_000, Net::HTTP.post(URI("http://127.0.0.1:#{port}/echo"), "louder" * 50_000, "content-type" => "text/plain").body
      assert_equal Array.new(5) { |number| "line #{number}, Gyre::Async::Selector\n" }.join, Net::HTTP.get("127.0.0.1", "/stream", port)
      assert_equal ["hello from Async::Reactor\n"] * 40, Array.new(40) { Thread.new { Net::HTTP.get("127.0.0.1", "/", port) } }.map(&:value)

      Process.kill(:INT, pid)
      status = nil
      eventually(what: "Falcon's end") { status = Process.wait2(pid, Process::WNOHANG) }
      assert_predicate status.last, :success?
      assert_equal "", err.read.lines.grep_v(/warning:/).join
    end
  end

  private

  def reachable?(port)
    TCPSocket.open("127.0.0.1", port).close
    true
  rescue Errno::ECONNREFUSED
    false
  end
end
