# frozen_string_literal: true

# The client's connections of HTTP/2 against servers that keep to the protocol: ours, nghttpd, node.

require "test_helper"
require "http/client/h2_peer"
require "http/h2/serving"
require "support/h2_peers"

module H2ConnectionCases
  include GyreTest::H2Serving
  include GyreTest::H2Peer

  BIG = Random.new(1).bytes(65_536).freeze

  APP = lambda do |env|
    input = env["rack.input"]
    case env["PATH_INFO"]
    when "/echo" then [200, { "x-length" => env["CONTENT_LENGTH"].to_s }, [input.read]]
    when "/count" then [200, {}, [count(input)]]
    when "/pipe" then [200, {}, pieces(input)]
    when "/big" then [200, {}, Enumerator.new { |out| env["QUERY_STRING"].to_i.times { out << BIG } }]
    when "/cookies" then [200, { "set-cookie" => %w[a=1 b=2], "x-one" => %w[1 2] }, []]
    when "/hints"
      env["rack.early_hints"].call("link" => "</a.css>")
      [200, {}, ["hello"]]
    when "/trailers"
      env["gyre.response_trailers"]["x-sum"] = "1"
      [200, {}, ["hello"]]
    when "/hang" then sleep
    else [200, {}, ["hello"]]
    end
  end

  def self.pieces(input)
    Enumerator.new do |out|
      while (piece = input.read(65_536))
        out << piece
      end
    end
  end

  def self.count(input)
    total = 0
    while (piece = input.read(65_536))
      total += piece.bytesize
    end
    total.to_s
  end

  def test_a_response_has_status_headers_body_and_end
    on_connection do |connection|
      exchange = get(connection)
      assert_equal [200, "5", "hello"], [exchange.status, exchange.headers["content-length"], exchange.read]
      assert_predicate exchange, :over?
      assert_nil exchange.read
      assert_equal [true, true, false], [connection.used?, connection.idle?, connection.closed?]
    end
  end

  def test_headers_of_one_name_are_joined_and_cookies_are_not
    on_connection do |connection|
      headers = get(connection, "/cookies").headers
      assert_equal [%w[a=1 b=2], "1, 2"], headers.values_at("set-cookie", "x-one")
    end
  end

  def test_head_has_no_body
    on_connection do |connection|
      exchange = connection.request("HEAD", "/", H2HOST, nil, nil)
      assert_equal [200, "5", true, nil], [exchange.status, exchange.headers["content-length"], exchange.over?, exchange.read]
    end
  end

  def test_bodies_are_sent_whole_and_in_pieces
    on_connection do |connection|
      assert_equal "abc", body_of(connection.request("POST", "/echo", H2HOST, "abc", nil))
      exchange = connection.request("POST", "/echo", H2HOST, %w[a bc d], nil)
      assert_equal ["", "abcd"], [exchange.headers["x-length"], body_of(exchange)]
      assert_equal "0", connection.request("POST", "/echo", H2HOST, "", nil).headers["x-length"]
      assert_equal "5000000", body_of(connection.request("POST", "/count", H2HOST, "x" * 5_000_000, nil))
      assert_equal "2500000", body_of(connection.request("POST", "/count", H2HOST, ["y" * 250_000] * 10, nil))
    end
  end

  def test_a_response_that_comes_before_the_requests_end_stops_neither
    on_connection(write_timeout_s: 5) do |connection|
      exchange = connection.request("POST", "/pipe", H2HOST, Array.new(120) { BIG }, nil)
      assert_equal BIG * 120, body_of(exchange)
      assert_equal [0, 0, 0, 0], connection.held
      assert_match(/more than 32 MB/, assert_raises(IOError) { connection.request("POST", "/pipe", H2HOST, [BIG].cycle, nil) }.message)
      assert_equal "hello", body_of(get(connection))
    end
  end

  def test_a_hundred_requests_run_at_once_on_one_connection
    on_connection do |connection, task, served|
      bodies = Array.new(100) { |index| task.async { body_of(connection.request("POST", "/echo", H2HOST, index.to_s, nil)) } }.map(&:wait)
      assert_equal (0...100).map(&:to_s), bodies
      assert_equal 1, served.stats[:connections]
      assert_equal [100, [0, 0, 0, 0]], [connection.capacity, connection.held]
    end
  end

  def test_a_slow_reader_does_not_stop_the_others
    on_connection do |connection|
      slow = Array.new(4) { get(connection, "/big?100") }
      assert_equal "hello", body_of(get(connection))
      assert_equal 100 * BIG.bytesize, body_of(get(connection, "/big?100")).bytesize
      slow.each { |exchange| assert_equal BIG * 100, body_of(exchange) }
      assert_equal [0, 0, 0, 0], connection.held
    end
  end

  def test_a_cancelled_response_frees_its_memory_and_place
    on_connection do |connection, _, served|
      exchange = get(connection, "/big?100")
      exchange.read
      exchange.cancel
      assert_equal [true, nil, true], [exchange.over?, exchange.read, connection.idle?]
      assert_equal "hello", body_of(get(connection))
      assert_equal [0, 0, 0, 0], connection.held
      eventually { served.used.values_at(:input, :output) == [0, 0] }
    end
  end

  def test_a_forgotten_response_is_reset
    on_connection(streams_limit: 2) do |connection|
      forget(connection)
      eventually do
        GC.start
        connection.capacity == 2
      end
      assert_equal [0, 0, 0, 0], connection.held
    end
  end

  def test_a_stopped_task_resets_its_stream
    on_connection do |connection, task, served|
      waiting = task.async { get(connection, "/hang") }
      eventually { served.stats[:requests] == 1 }
      waiting.stop
      eventually { connection.idle? }
      assert_raises(Gyre::TimeoutError) { task.with_timeout(0.01) { get(connection, "/hang") } }
      assert_predicate connection, :idle?
      assert_equal "hello", body_of(get(connection))
    end
  end

  def test_the_end_of_the_requests_time_raises
    on_connection do |connection|
      error = assert_raises(Gyre::TimeoutError) { get(connection, "/hang", Gyre::Clock.now + 0.01) }
      assert_match(/the request's time is over \(timeout_s\)\z/, error.message)
      assert_equal [true, 100, [0, 0, 0, 0]], [connection.idle?, connection.capacity, connection.held]
    end
  end

  def test_interim_responses_are_yielded
    on_connection do |connection|
      seen = []
      exchange = get(connection, "/hints") { |status, headers| seen << [status, headers] }
      assert_equal [[[103, { "link" => "</a.css>" }]], 200, "hello"], [seen, exchange.status, body_of(exchange)]
    end
  end

  def test_trailers_are_there_after_the_end
    on_connection do |connection|
      exchange = get(connection, "/trailers")
      assert_equal ["hello", { "x-sum" => "1" }], [body_of(exchange), exchange.trailers]
    end
  end

  def test_wrong_requests_raise_before_anything_is_sent
    on_connection do |connection, _, served|
      [["GET X", "/", {}], ["GET", "/a b", {}], ["GET", "", {}], ["GET", "/", { "a" => "b\r\nc: d" }],
       ["GET", "/", { "a b" => "c" }], ["GET", "/", { "a" => 1 }], ["GET", "/", { "host" => "a\n" }]].each do |method, target, headers|
        assert_raises(ArgumentError) { connection.request(method, target, H2HOST.merge(headers), nil, nil) }
      end
      assert_raises(ArgumentError) { connection.request("GET", "/", {}, nil, nil) }
      assert_equal "hello", body_of(connection.request("GET", "/", H2HOST.merge("connection" => "close", "te" => "gzip", "x" => %w[a b]), nil, nil))
      assert_equal 1, served.stats[:requests]
    end
  end

  def test_a_closed_connection_fails_its_requests_and_takes_no_more
    on_connection do |connection, task, served|
      waiting = task.async { assert_raises(Gyre::HTTP::Client::Unanswered) { get(connection, "/hang") } }
      eventually { served.stats[:requests] == 1 }
      connection.close
      assert_predicate waiting.wait, :processed?
      assert_equal [true, 0], [connection.closed?, connection.capacity]
      refute_predicate assert_raises(Gyre::HTTP::Client::Unanswered) { get(connection) }, :processed?
    end
  end

  def test_a_drained_server_finishes_its_streams
    on_connection do |connection, task, served|
      exchange = get(connection, "/big?200")
      served.on_loop { served.server.drain }
      eventually { connection.closed? }
      refute_predicate connection, :idle?
      assert_equal 200 * BIG.bytesize, body_of(exchange).bytesize
      refute_predicate assert_raises(Gyre::HTTP::Client::Unanswered) { get(connection) }, :processed?
      task.yield
    end
  end

  def test_a_plain_thread_drives_its_own_connection
    serve(APP) do |served|
      connection = client_of(served)
      assert_equal [1, false], [connection.capacity, connection.shared?]
      exchange = get(connection, "/big?50")
      assert_equal 0, connection.capacity
      assert_equal 50 * BIG.bytesize, body_of(exchange).bytesize
      assert_equal BIG * 120, body_of(connection.request("POST", "/pipe", H2HOST, Array.new(120) { BIG }, nil))
      assert_equal ["700000", 1], [body_of(connection.request("POST", "/count", H2HOST, "x" * 700_000, nil)), connection.capacity]
      assert_raises(Gyre::TimeoutError) { get(connection, "/hang", Gyre::Clock.now + 0.01) }
      connection.close
    end
  end

  def test_another_thread_cannot_use_a_loops_connection
    on_connection do |connection|
      error = Thread.new { get(connection) rescue $! }.value
      assert_kind_of ThreadError, error
    end
  end

  private

  H2HOST = GyreTest::H2Peer::HOST

  def get(connection, *rest, &block) = connection.request("GET", rest[0] || "/", H2HOST, nil, rest[1], &block)
  def forget(connection) = Fiber.new { 3.times { get(connection, "/big?100").cancel } and get(connection, "/big?100") and nil }.resume

  def client_of(served, **limits)
    connection(served.port, tls: tls? && Gyre::TLS.client(verify: false, alpn: ["h2"]), **limits)
  end

  def on_connection(**limits)
    serve(APP) do |served|
      Gyre.run do |task|
        connection = client_of(served, **limits)
        yield connection, task, served
      ensure
        connection&.close
      end
    end
  end
end

if GyreTest::H2Peer::AVAILABLE
  class H2ConnectionTest < Minitest::Test
    include H2ConnectionCases
  end

  class H2ConnectionOverTLSTest < Minitest::Test
    include H2ConnectionCases

    def tls? = true
  end
end
