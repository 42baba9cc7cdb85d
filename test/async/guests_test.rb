# frozen_string_literal: true

# Async's tasks and gems on Gyre's own scheduler: in a Gyre task, and in a request of gyre serve.
# Each case is a program of its own.

require "test_helper"
require "support/engines"
require "support/async_gems"
require "net/http"
require "tempfile"

GyreTest::Engines.test_case("AsyncGuestsTest", backends: [GyreTest::Engines::ALL.first, GyreTest::Engines::ALL.last].uniq) do
  include GyreTest::AsyncGems

  # The portable engine has guests, too.
  def setup
    ENV.delete("GYRE_BACKEND")
    need_async
    ENV["GYRE_BACKEND"] = backend
  end

  # Runs the program in a task; its output has to be what is given.
  def assert_prints(expected, code)
    run = async_ruby("-e", "require 'gyre'; require 'async'\nGyre.run do |gyre|\n#{code}\nend")
    assert_equal [expected, ""], [run.out, run.err]
    assert_predicate run.status, :success?
  end

  def test_tasks_run_beside_each_other_and_have_values_and_errors
    assert_prints "[1, 2]\nboom\n:inner\n7\n", <<~RUBY
      p Async { |task| [task.async { sleep 0.01; 1 }, task.async { 2 }].map(&:wait) }.wait
      begin
        Async { raise "boom" }.wait
      rescue => error
        puts error.message
      end
      p Sync { |task| task.async { sleep 0.001; :inner }.wait }
      p Gyre.run { Async { sleep 0.001; 7 }.wait }
    RUBY
  end

  def test_what_tasks_wait_on
    assert_prints "2\ntrue\n5\n3\n", <<~RUBY
      %w[semaphore barrier queue notification].each { |name| require "async/" + name }
      semaphore, running, most = Async::Semaphore.new(2), 0, 0
      Sync { Array.new(6) { semaphore.async { most = [most, running += 1].max; sleep 0.002; running -= 1 } }.each(&:wait) }
      p most
      barrier = Async::Barrier.new
      Sync { 3.times { |index| barrier.async { sleep 0.001 * index } }; barrier.wait }
      p barrier.empty?
      queue = Async::Queue.new
      Async { queue.push(5) }
      p Sync { queue.pop }
      notification = Async::Notification.new
      waiting = Async { notification.wait }
      Async { notification.signal(3) }
      p waiting.wait
    RUBY
  end

  def test_they_are_stopped_and_run_out_of_time
    assert_prints "cleaned up\n:cancelled\nAsync::TimeoutError\nended with its task\n", <<~RUBY
      forever = lambda do |text|
        sleep
      ensure
        puts text
      end
      task = Async { forever.call("cleaned up") }
      task.stop
      p task.status
      begin
        Sync { |sync| sync.with_timeout(0.005) { sleep } }
      rescue Async::TimeoutError => error
        puts error.class
      end
      child = gyre.async { Async { forever.call("ended with its task") }; sleep }
      gyre.yield
      child.stop.wait
    RUBY
  end

  def test_a_client_and_a_server_of_async_http
    assert_prints %(["hello /0", "hello /1", "hello /2"]\n), <<~RUBY
      require "async/http"
      listener = TCPServer.new("127.0.0.1", 0)
      endpoint = Async::HTTP::Endpoint.parse("http://127.0.0.1:\#{listener.local_address.ip_port}")
      app = ->(request) { Protocol::HTTP::Response[200, {}, ["hello " + request.path]] }
      bound = IO::Endpoint::BoundEndpoint.new(endpoint, [listener])
      server = Async { Async::HTTP::Server.new(app, bound, protocol: endpoint.protocol, scheme: "http").run }
      Sync do |task|
        client = Async::HTTP::Client.new(endpoint)
        p Array.new(3) { |index| task.async { client.get("/\#{index}").read } }.map(&:wait)
      ensure
        client.close
      end
      server.stop
    RUBY
  end
end

# The same in a request.
class AsyncGuestsInRequestsTest < Minitest::Test
  include GyreTest::AsyncGems

  APP = <<~RUBY
    require "async"
    require "async/http/internet/instance"
    run lambda { |env|
      body = case env["PATH_INFO"]
             when "/sync" then Sync { |task| [task.async { sleep 0.005; "a" }, task.async { "b" }].map(&:wait).join }
             when "/client" then Sync { Async::HTTP::Internet.get("http://\#{env["HTTP_HOST"]}/sync") { |answer| answer.read } }
             end
      [200, {}, [body]]
    }
  RUBY

  def setup
    need_async
  end

  def test_tasks_and_a_client_in_a_request_of_gyre_serve
    Tempfile.create(["app", ".ru"]) do |app|
      app.write(APP)
      app.close
      command = async_command("#{GyreTest::Helpers::ROOT}/exe/gyre", "serve", app.path, "-b", "tcp://127.0.0.1:0")
      with_subprocess(*command) do |pid, out, _err|
        line = out.gets until line&.include?("listening on")
        port = Integer(line[/:(\d+)$/, 1])
        assert_equal %w[ab ab], (%w[/sync /client].map { |path| Net::HTTP.get("127.0.0.1", path, port) })
        Process.kill(:TERM, pid)
        assert_includes out.read, "Stopped"
      end
    end
  end
end
