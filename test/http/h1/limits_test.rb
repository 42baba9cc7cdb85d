# frozen_string_literal: true

# Limits that only HTTP/1 has, or that end its connection. The others are in test/contracts.

require "test_helper"
require "support/engines"
require "http/serving"

module HTTP1Limits
  include GyreTest::HTTPServing

  HELLO = ->(_env) { [200, {}, ["hello"]] }
  ECHO = ->(env) { [200, {}, [env["rack.input"].read]] }

  # Sends a byte now and then until something comes back.
  def trickle(client)
    while client.silent?(0.005)
      begin
        client.write("x")
      rescue SystemCallError
        break
      end
    end
    client
  end

  def test_headers_beyond_their_number_or_size_get_431
    serve(HELLO, limits: { header_count_limit: 4, header_bytes_limit: 200 }) do |served|
      assert_equal 200, get(served, a: 1, b: 2, c: 3).status
      assert_refused(connect(served).request(a: 1, b: 2, c: 3, d: 4), 431)
      assert_equal 200, get(served, a: "x" * 150).status
      assert_refused(connect(served).request(a: "x" * 200), 431)
    end
  end

  def test_a_line_without_end_is_refused_at_its_limit
    serve(HELLO, limits: { request_line_bytes_limit: 64, header_bytes_limit: 200 }) do |served|
      assert_refused(connect(served).write("GET /#{"a" * 100}"), 414)
      assert_refused(connect(served).write("GET / HTTP/1.1\r\nhost: a\r\nx: #{"y" * 400}"), 431)
    end
  end

  def test_a_connection_that_sends_nothing_gets_408
    serve(HELLO, limits: { first_byte_timeout_s: 0.05 }) do |served|
      2.times { assert_refused(connect(served), 408) }
    end
  end

  def test_a_head_that_comes_too_slowly_gets_408_however_steadily_it_comes
    serve(HELLO, limits: { head_timeout_s: 0.2 }) do |served|
      client = connect(served)
      head = "GET / HTTP/1.1\r\nhost: #{"a" * 100}"
      taken = duration_s do
        head.each_char do |byte|
          break if client.socket.wait_readable(0.01)

          client.write(byte)
          assert_equal 0, served.stats[:running] if served.stats[:malformed].zero?
        end
        assert_refused(client, 408)
      end
      assert_operator taken, :>, 0.15
    end
  end

  def test_the_time_for_a_head_begins_again_with_each_request
    serve(HELLO, limits: { head_timeout_s: 0.5 }) do |served|
      # More than once only where the machine stands still.
      eventually(what: "heads that take longer than the limit together") do
        client = connect(served)
        3.times.all? do
          client.write("GET / HTTP/1.1\r\n")
          sleep 0.2
          client.write("host: a\r\n\r\n").response.status == 200
        end
      rescue SystemCallError
        false
      end
    end
  end

  def test_a_chunk_that_stops_gets_408
    serve(ECHO, limits: { read_timeout_s: 0.05 }) do |served|
      assert_refused(connect(served).request("POST / HTTP/1.1", "3\r\nab", transfer_encoding: "chunked"), 408)
    end
  end

  def test_what_an_app_left_unread_is_waited_for_for_a_while_only
    serve(HELLO, limits: { unread_body_timeout_s: 0.1, linger_timeout_s: 0.05 }) do |served|
      client = connect(served).request("POST / HTTP/1.1", content_length: 50_000)
      assert_equal 200, client.response.status
      trickle(client) # which ends with the connection
      assert_predicate client, :ended?
      eventually { served.stats[:connections].zero? }
    end
  end

  # As proxies do, which read the response only after the request.
  def test_a_client_gets_an_early_response_after_it_has_sent_the_whole_upload
    app = ->(env) { [env["rack.input"].read(100_000) ? 422 : 500, {}, ["no"]] }
    serve(app, limits: { body_bytes_limit: 6_000_000 }) do |served|
      { 5_000_000 => 422, 7_000_000 => 413 }.each do |length, status|
        client = connect(served).request("POST / HTTP/1.1", content_length: length)
        (length / 100_000).times { client.write("x" * 100_000) }
        assert_equal status, client.response.status
        assert_predicate client, :ended?
        client.close
      end
      eventually { served.stats[:connections].zero? }
    end
  end

  def test_an_upload_without_end_is_cut_after_its_early_response
    serve(HELLO, limits: { linger_timeout_s: 0.01 }) do |served|
      client = connect(served).request("POST / HTTP/1.1", content_length: 10**12)
      assert_raises(Errno::EPIPE, Errno::ECONNRESET, IOError) { loop { client.write("x" * 100_000) } }
      eventually { served.stats[:connections].zero? }
    end
  end

  def test_heads_that_come_in_part_have_so_much_memory_in_all
    part = "GET / HTTP/1.1\r\nhost: a\r\n"
    serve(HELLO, limits: { heads_bytes_limit: 40_000 }) do |served|
      2.times do # what ended is not counted any more
        clients = Array.new(20) { connect(served).write(part).tap { |client| get(served) || client } } # one after the other
        refused, kept = clients.partition { |client| client.socket.wait_readable(0) }
        assert_operator kept.size, :>, 2
        assert_operator refused.size, :>, 2
        refused.each { |client| assert_equal 503, client.response.status }
        kept.first(2).each { |client| assert_equal 200, client.write("\r\n").response.status }
        assert_equal 200, get(served).status
        clients.each(&:close)
        eventually { served.stats[:connections].zero? }
      end
    end
  end

  def test_a_client_that_takes_nothing_is_dropped
    closed = Thread::Queue.new
    body = Enumerator.new { |parts| loop { parts << ("x" * 100_000) } }
    body.define_singleton_method(:close) { closed << $!.class }
    apps = { "/each" => body, "/array" => ["x" * 30_000_000] }
    def (apps["/array"]).close = nil
    app = lambda do |env|
      env["rack.response_finished"] << ->(_env, _status, _headers, error) { closed << error.class }
      [200, {}, apps.fetch(env["PATH_INFO"])]
    end
    serve(app, limits: { write_timeout_s: 0.1 }, buffers: 200_000) do |served|
      apps.each_key do |path|
        client = connect(served)
        client.request("GET #{path} HTTP/1.1")
        closed.pop if path == "/each"
        assert_equal Gyre::HTTP::WriteTimeout, closed.pop, path
        eventually { served.stats.values_at(:connections, :running) == [0, 0] }
        client.rest
      end
    end
  end

  def test_a_client_that_does_not_close_after_a_refusal_is_closed
    serve(HELLO, limits: { linger_timeout_s: 0.05 }) do |served|
      client = connect(served)
      client.write("rubbish\r\n\r\n")
      client.response
      eventually { served.stats[:connections].zero? }
    end
  end

  def test_a_connection_serves_a_limited_number_of_requests_and_tells_which_is_the_last
    serve(HELLO, limits: { keep_alive_requests_limit: 3 }) do |served|
      client = connect(served)
      assert_equal [nil, nil, "close"], Array.new(3) { client.get["connection"] }
      assert client.ended?
    end
  end

  def test_pipelined_requests_beyond_the_limit_do_not_destroy_the_last_response
    serve(HELLO, limits: { keep_alive_requests_limit: 2 }) do |served|
      client = connect(served)
      client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 1000)
      assert_equal [nil, "close"], Array.new(2) { client.response["connection"] }
      assert client.ended?
      refute client.reset?
    end
  end

  def test_a_connection_too_many_gets_503
    serve(HELLO, limits: { connections_limit: 2 }) do |served|
      clients = Array.new(2) { connect(served).tap(&:get) }
      response = connect(served).response
      assert_equal [503, "close"], [response.status, response["connection"]]
      assert_equal [2, 1], served.stats.values_at(:connections, :refused)
      clients.first.close
      eventually { served.stats[:connections] == 1 }
      assert_equal 200, get(served).status
      assert_equal 200, clients.last.get.status
    end
  end
end

GyreTest::Engines.test_case("HTTP1LimitsTest", backends: GyreTest::Engines::NATIVE) { include HTTP1Limits }
