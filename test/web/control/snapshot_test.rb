# frozen_string_literal: true

# What a server shows of itself: Gyre::Web::Server#snapshot and the counts of the acceptor in C.

require "test_helper"
require "json"
require "net/http"
require "socket"
require "gyre/web"

class WebSnapshotTest < Minitest::Test
  BOUNDS_S = Gyre::Web::Snapshot::BOUNDS_S

  APP = lambda do |env|
    case env["PATH_INFO"]
    when "/missing" then [404, {}, ["no\n"]]
    when "/raise" then raise "trouble"
    when "/upgrade" then [101, { "upgrade" => "echo" }, ->(io) { io.close }]
    when "/hijack"
      env["rack.hijack"].call.close
      [200, {}, []]
    else [200, { "content-type" => "text/plain" }, ["hello"]]
    end
  end

  def test_a_server_that_does_not_run_yet_has_a_snapshot
    server = Gyre::Web::Server.new(APP, bind: "tcp://127.0.0.1:0")
    snapshot = server.snapshot
    assert_equal [0, 0, []], [snapshot["requests"], snapshot["connections"]["open"], snapshot["slowest"]]
    assert_equal snapshot, JSON.parse(JSON.generate(snapshot))
  ensure
    server.close
  end

  def test_each_response_is_counted_by_its_class_and_has_a_duration
    serve do |server|
      %w[/ / /missing /raise].each { |path| get(server, path) }
      snapshot = settled(server) { |values| values["responses"].values.sum == 4 }
      assert_equal({ "none" => 0, "1xx" => 0, "2xx" => 2, "3xx" => 0, "4xx" => 1, "5xx" => 1 }, snapshot["responses"])
      assert_equal 4, snapshot["requests"]
      assert_equal BOUNDS_S.size + 1, snapshot["durations"]["counts"].size
      assert_equal 4, snapshot["durations"]["counts"].sum
      assert_operator snapshot["durations"]["sum_s"], :>, 0
      assert_operator snapshot["lag"]["counts"].sum, :>, 0
      assert_equal snapshot, JSON.parse(JSON.generate(snapshot))
    end
  end

  def test_responses_on_one_connection_are_counted_one_by_one
    serve do |server|
      client = TCPSocket.new("127.0.0.1", server.endpoints.first.port)
      client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 3)
      snapshot = settled(server) { |values| values["responses"]["2xx"] == 3 }
      client.close
      assert_equal 3, snapshot["durations"]["counts"].sum
    end
  end

  def test_bytes_are_those_of_the_connection_both_ways
    serve do |server|
      request = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
      response = raw(server, request)
      snapshot = settled(server) { |values| values["connections"]["open"].zero? }
      assert_equal [request.bytesize, response.bytesize], snapshot.values_at("received_bytes", "sent_bytes")
    end
  end

  def test_budgets_have_their_use_and_their_limit
    app = ->(env) { [200, {}, [env["rack.input"].read]] }
    server = Gyre::Web::Server.new(app, bind: "tcp://127.0.0.1:0", limits: { requests_limit: 9, input_bytes_limit: 1 << 20, files_limit: 7 }).start
    client = TCPSocket.new("127.0.0.1", server.endpoints.first.port)
    client.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 30000\r\n\r\n", "x" * 20_000)
    snapshot = settled(server) { |values| values["buffered_bytes"]["input"] >= 20_000 }
    assert_equal [1 << 20, 7, 0], [snapshot["buffered_bytes_limit"]["input"], *snapshot.values_at("files_limit", "files")]
    client.close
    settled(server) { |values| values["buffered_bytes"]["input"].zero? }
  ensure
    server.stop
    server.wait(60)
  end

  def test_a_refused_head_is_a_response_too
    serve do |server|
      raw(server, "nonsense\r\n\r\n")
      snapshot = settled(server) { |values| values["responses"]["4xx"] == 1 }
      assert_equal [1, 0], snapshot.values_at("malformed", "requests")
    end
  end

  def test_what_has_no_end_of_its_own_has_no_duration
    serve do |server|
      raw(server, "GET /upgrade HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n")
      raw(server, "GET /hijack HTTP/1.1\r\nhost: a\r\n\r\n")
      snapshot = settled(server) { |values| values["responses"]["1xx"] == 1 && values["connections"]["running"].zero? }
      assert_equal [0, 2], [snapshot["durations"]["counts"].sum, snapshot["requests"]]
      assert_equal 1, snapshot["responses"].values.sum
    end
  end

  def test_a_client_that_left_before_its_response_counts_as_none
    asked = Thread::Queue.new
    left = Thread::Queue.new
    app = lambda do |env|
      asked << true
      left.pop
      [200, {}, [env["x"] || ("a" * 100_000)]]
    end
    serve(app) do |server|
      client = TCPSocket.new("127.0.0.1", server.endpoints.first.port)
      client.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")
      asked.pop
      client.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii"))
      client.close
      left << true
      snapshot = settled(server) { |values| values["responses"].values.sum == 1 }
      # The kernel may have taken the head before it learned of the reset.
      assert_equal 1, snapshot["responses"].values_at("none", "2xx").sum
    end
  end

  def test_the_time_in_the_queue_before_a_request_runs_counts
    go = Thread::Queue.new
    app = lambda do |_env|
      go.pop
      [200, {}, []]
    end
    serve(app, limits: { requests_limit: 1 }) do |server|
      clients = Array.new(2) do
        TCPSocket.new("127.0.0.1", server.endpoints.first.port).tap do |client|
          client.write("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        end
      end
      settled(server) { |values| values["waiting"] == 1 && values["connections"]["running"] == 1 }
      both_from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      200.times { server.snapshot }
      both_s = Process.clock_gettime(Process::CLOCK_MONOTONIC) - both_from
      2.times { go << true }
      clients.each { |client| client.read && client.close }
      snapshot = settled(server) { |values| values["responses"]["2xx"] == 2 }
      assert_operator snapshot["durations"]["sum_s"], :>=, both_s * 2
      assert_equal 1, snapshot["waited"]
    end
  end

  def test_running_requests_are_named_without_their_query_string_the_oldest_first
    asked = Thread::Queue.new
    go = Thread::Queue.new
    app = lambda do |_env|
      asked << true
      go.pop
      [200, {}, []]
    end
    serve(app) do |server|
      clients = %w[/first?secret=1 /second].map do |path|
        client = TCPSocket.new("127.0.0.1", server.endpoints.first.port)
        client.write("GET #{path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        asked.pop
        client
      end
      snapshot = server.snapshot
      assert_equal [%w[GET /first 127.0.0.1], %w[GET /second 127.0.0.1]],
        snapshot["slowest"].map { |request| request.values_at("method", "path", "remote") }
      assert_operator snapshot["slowest"][0]["seconds"], :>=, snapshot["slowest"][1]["seconds"]
      assert_equal 2, snapshot["connections"]["running"]
      2.times { go << true }
      clients.each { |client| client.read && client.close }
      assert_empty settled(server) { |values| values["connections"]["running"].zero? }["slowest"]
    end
  end

  private

  def serve(app = APP, **options)
    server = Gyre::Web::Server.new(app, bind: "tcp://127.0.0.1:0", log: quiet, **options).start
    yield server
  ensure
    server&.stop(now: true)
    assert server.wait(60), "the server did not end" if server
  end

  def quiet
    Gyre::Web::ServerLog.new(errors: File.open(File::NULL, "w").tap { |io| (@files ||= []) << io })
  end

  def teardown
    @files&.each(&:close)
    super
  end

  def get(server, path) = Net::HTTP.get_response(URI("#{server.urls.first}#{path}"))

  def raw(server, bytes)
    client = TCPSocket.new("127.0.0.1", server.endpoints.first.port)
    client.write(bytes)
    client.read
  ensure
    client.close
  end

  # A response has left a little before it is counted.
  def settled(server)
    eventually(what: "the counts") do
      snapshot = server.snapshot
      snapshot if yield(snapshot)
    end
  end
end
