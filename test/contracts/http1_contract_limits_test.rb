# frozen_string_literal: true

# Every limit of Gyre::HTTP::Limits on the wire: what is just allowed, the response beyond, and that
# no other connection notices. Times are parameters, so nothing here waits longer than it must.

require "test_helper"
require "support/engines"
require "http/serving"
require "http/h2/contract"

cases = proc do
  include GyreTest::HTTPServing

  hello = ->(_env) { [200, {}, ["hello"]] }
  echo = ->(env) { [200, {}, [env["rack.input"].read]] }

  # A response that refuses, in one plain line, and the end of the connection.
  def assert_refused(client, status, pattern = /./)
    response = client.response
    assert_equal [status, connection_close], [response.status, response["connection"]]
    assert_match(/\A[^\n]*#{pattern}[^\n]*\n\z/, response.body)
    assert client.ended? unless http2?
  end

  define_method(:test_a_request_line_up_to_its_limit_is_read_and_beyond_it_gets_414) do
    serve(hello, limits: { request_line_bytes_limit: 64 }) do |served|
      line = "GET /#{"a" * (64 - "GET / HTTP/1.1\r\n".bytesize)} HTTP/1.1"
      assert_equal 200, get(served, line).status
      client = connect(served)
      client.request(line.sub("/", "/a"))
      assert_refused(client, 414)
    end
  end

  define_method(:test_headers_beyond_their_number_or_size_get_431) do
    serve(hello, limits: { header_count_limit: 4, header_bytes_limit: 200 }) do |served|
      assert_equal 200, get(served, a: 1, b: 2, c: 3).status
      assert_refused(connect(served).request(a: 1, b: 2, c: 3, d: 4), 431)
      assert_equal 200, get(served, a: "x" * 150).status
      assert_refused(connect(served).request(a: "x" * 200), 431)
    end
  end

  define_method(:test_a_line_without_end_is_refused_at_its_limit) do
    serve(hello, limits: { request_line_bytes_limit: 64, header_bytes_limit: 200 }) do |served|
      assert_refused(connect(served).write("GET /#{"a" * 100}"), 414)
      assert_refused(connect(served).write("GET / HTTP/1.1\r\nhost: a\r\nx: #{"y" * 400}"), 431)
    end
  end

  define_method(:test_a_body_announced_too_long_gets_413_without_the_app) do
    called = 0
    app = lambda do |env|
      called += 1
      echo.call(env)
    end
    serve(app, limits: { body_bytes_limit: 1000 }) do |served|
      assert_equal "x" * 1000, get(served, "POST / HTTP/1.1", "x" * 1000, content_length: 1000).body
      assert_refused(connect(served).request("POST / HTTP/1.1", content_length: 1001, expect: "100-continue"), 413)
      assert_refused(connect(served).request("POST / HTTP/1.1", "x" * 500_000, content_length: 500_000), 413)
      assert_equal 1, called
    end
  end

  define_method(:test_a_chunked_body_that_grows_too_long_gets_413) do
    serve(echo, limits: { body_bytes_limit: 1000 }) do |served|
      body = ->(size) { "#{size.to_s(16)}\r\n#{"x" * size}\r\n0\r\n\r\n" }
      assert_equal 1000, get(served, "POST / HTTP/1.1", body.call(1000), transfer_encoding: "chunked").body.bytesize
      assert_refused(connect(served).request("POST / HTTP/1.1", body.call(1001), transfer_encoding: "chunked"), 413)
    end
  end

  define_method(:test_trailers_that_are_too_long_get_431) do
    serve(echo, limits: { trailer_bytes_limit: 100 }) do |served|
      assert_equal "", get(served, "POST / HTTP/1.1", "0\r\nx: #{"y" * 50}\r\n\r\n", transfer_encoding: "chunked").body
      assert_refused(connect(served).request("POST / HTTP/1.1", "0\r\nx: #{"y" * 150}", transfer_encoding: "chunked"), 431)
    end
  end

  define_method(:test_an_app_may_respond_to_a_body_that_is_too_long_by_itself) do
    app = lambda do |env|
      env["rack.input"].read
      [200, {}, []]
    rescue Gyre::HTTP::RequestError => error
      [418, {}, ["#{error.status} #{error.message}"]]
    end
    serve(app, limits: { body_bytes_limit: 10 }) do |served|
      client = connect(served).request("POST / HTTP/1.1", "b\r\n12345678901\r\n0\r\n\r\n", transfer_encoding: "chunked")
      response = client.response
      assert_equal [418, connection_close], [response.status, response["connection"]]
      assert_match(/\A413 ./, response.body)
      assert client.ended? unless http2?
    end
  end

  define_method(:test_a_connection_that_says_nothing_gets_408) do
    serve(hello, limits: { first_byte_timeout_s: 0.05 }) do |served|
      2.times { assert_refused(connect(served), 408) }
    end
  end

  define_method(:test_a_head_that_comes_too_slowly_gets_408_however_steadily_it_comes) do
    serve(hello, limits: { head_timeout_s: 0.2 }) do |served|
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

  define_method(:test_the_time_for_a_head_begins_again_with_each_request) do
    serve(hello, limits: { head_timeout_s: 2 }) do |served|
      client = connect(served)
      3.times do
        client.write("GET / HTTP/1.1\r\n")
        sleep 0.7 # three of them are more than the limit
        client.write("host: a\r\n\r\n")
        assert_equal 200, client.response.status
      end
    end
  end

  define_method(:test_an_idle_connection_is_closed_without_a_word) do
    serve(hello, limits: { keep_alive_timeout_s: 0.05 }) do |served|
      client = connect(served)
      taken = duration_s do
        assert_equal 200, client.get.status
        assert client.ended?
      end
      assert_operator taken, :>, 0.03
      eventually { served.stats[:connections].zero? }
    end
  end

  define_method(:test_a_body_that_stops_gets_408) do
    serve(echo, limits: { read_timeout_s: 0.05 }) do |served|
      assert_refused(connect(served).request("POST / HTTP/1.1", "abc", content_length: 10), 408)
    end
  end

  define_method(:test_a_chunk_that_stops_gets_408) do
    serve(echo, limits: { read_timeout_s: 0.05 }) do |served|
      assert_refused(connect(served).request("POST / HTTP/1.1", "3\r\nab", transfer_encoding: "chunked"), 408)
    end
  end

  define_method(:test_a_body_may_be_slow_as_long_as_it_goes_on) do
    serve(echo, limits: { read_timeout_s: 2, head_timeout_s: 2 }) do |served|
      client = connect(served)
      client.request("POST / HTTP/1.1", content_length: 5)
      "hello".each_char do |byte|
        sleep 0.45 # five of them are more than either limit
        client.write(byte)
      end
      assert_equal "hello", client.response.body
    end
  end

  # Sends a byte now and then until something comes back.
  define_method(:trickle) do |client|
    while client.silent?(0.005)
      begin
        client.write("x")
      rescue SystemCallError
        break
      end
    end
    client
  end

  define_method(:test_a_body_that_goes_on_for_too_long_gets_408) do
    serve(echo, limits: { body_timeout_s: 0.1 }) do |served|
      client = trickle(connect(served).request("POST / HTTP/1.1", content_length: 100_000))
      assert_refused(client, 408, /did not come in time/)
    end
  end

  define_method(:test_a_body_that_is_too_slow_on_average_gets_408) do
    serve(echo, limits: { body_grace_timeout_s: 0.05, body_rate_bytes_limit: 10_000 }) do |served|
      client = trickle(connect(served).request("POST / HTTP/1.1", content_length: 100_000))
      assert_refused(client, 408, /comes too slowly/)
    end
  end

  define_method(:test_a_body_has_earned_its_time_by_what_came_before) do
    serve(echo, limits: { body_grace_timeout_s: 0.5, body_rate_bytes_limit: 1000 }) do |served|
      client = connect(served).request("POST / HTTP/1.1", "x" * 99_999, content_length: 100_000) # 100 s worth
      sleep 0.55
      assert_equal 100_000, client.write("x").response.body.bytesize
    end
  end

  define_method(:test_an_app_may_take_its_time_with_a_body) do
    app = lambda do |env|
      body = +""
      while (piece = env["rack.input"].read(1))
        sleep 0.05
        body << piece
      end
      [200, {}, [body]]
    end
    limits = { body_timeout_s: 0.1, body_grace_timeout_s: 0.1, body_rate_bytes_limit: 1_000_000 }
    serve(app, limits: limits) { |served| assert_equal "hello", get(served, "POST / HTTP/1.1", "hello", content_length: 5).body }
  end

  define_method(:test_time_in_which_the_loop_was_held_is_not_the_clients) do
    pieces = Thread::Queue.new
    app = lambda do |env|
      2.times { pieces << env["rack.input"].read(1) }
      [200, {}, ["ok"]]
    end
    limits = { body_timeout_s: 1, body_grace_timeout_s: 1, body_rate_bytes_limit: 1 }
    serve(app, limits: limits) do |served|
      client = connect(served).request("POST / HTTP/1.1", content_length: 2)
      eventually { served.stats[:running] == 1 }
      hold(served) do
        client.write("a")
        sleep 1.1
      end
      assert_equal "a", pieces.pop
      assert_equal "ok", client.write("b").response.body
    end
  end

  # More than the loop asks the kernel for at once, so some are not reported when their time is
  # over.
  define_method(:test_a_request_that_came_while_the_loop_was_held_has_come_in_time) do
    serve(hello, limits: { first_byte_timeout_s: 1, head_timeout_s: 1 }, backlog: 1000) do |served|
      clients = Array.new(300) { connect(served) }
      eventually { served.stats[:connections] == clients.size }
      hold(served) do
        clients.each(&:request)
        sleep 1.1
      end
      assert_equal [200], clients.map { |client| client.response.status }.uniq
    end
  end

  define_method(:test_without_a_rate_and_a_time_a_body_may_trickle) do
    serve(echo, limits: { body_grace_timeout_s: 0.001, body_rate_bytes_limit: 0, body_timeout_s: nil }) do |served|
      client = connect(served).request("POST / HTTP/1.1", content_length: 5)
      "hello".each_char { |byte| client.write(byte).silent?(0.01) }
      assert_equal "hello", client.response.body
    end
  end

  define_method(:test_what_an_app_left_unread_is_waited_for_for_a_while_only) do
    serve(hello, limits: { unread_body_timeout_s: 0.1, linger_timeout_s: 0.05 }) do |served|
      client = connect(served).request("POST / HTTP/1.1", content_length: 50_000)
      assert_equal 200, client.response.status
      trickle(client) # which ends with the connection
      assert_predicate client, :ended?
      eventually { served.stats[:connections].zero? }
    end
  end

  define_method(:test_heads_that_come_in_part_have_so_much_memory_in_all) do
    part = "GET / HTTP/1.1\r\nhost: a\r\n"
    serve(hello, limits: { heads_bytes_limit: 40_000 }) do |served|
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

  define_method(:test_a_client_that_takes_nothing_is_dropped) do
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

  define_method(:test_a_client_that_reads_slowly_is_not_dropped) do
    serve(->(_env) { [200, {}, ["x" * 6_000_000]] }, limits: { write_timeout_s: 2 }, buffers: 100_000) do |served|
      client = connect(served)
      client.request
      client.take_through("\r\n\r\n")
      12.times do
        client.take(500_000)
        sleep 0.18 # twelve of them are more than the limit
      end
      assert_equal 200, client.get.status
    end
  end

  define_method(:test_a_client_that_does_not_close_after_a_refusal_is_closed) do
    serve(hello, limits: { linger_timeout_s: 0.05 }) do |served|
      client = connect(served)
      client.write("rubbish\r\n\r\n")
      client.response
      eventually { served.stats[:connections].zero? }
    end
  end

  define_method(:test_a_connection_serves_so_many_requests_and_says_which_is_the_last) do
    serve(hello, limits: { keep_alive_requests_limit: 3 }) do |served|
      client = connect(served)
      assert_equal [nil, nil, "close"], Array.new(3) { client.get["connection"] }
      assert client.ended?
    end
  end

  define_method(:test_pipelined_requests_beyond_the_limit_do_not_destroy_the_last_response) do
    serve(hello, limits: { keep_alive_requests_limit: 2 }) do |served|
      client = connect(served)
      client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 1000)
      assert_equal [nil, "close"], Array.new(2) { client.response["connection"] }
      assert client.ended?
      refute client.reset?
    end
  end

  define_method(:test_a_connection_too_many_gets_503) do
    serve(hello, limits: { connections_limit: 2 }) do |served|
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

  define_method(:test_times_may_be_unlimited) do
    times = Gyre::HTTP::Limits::TABLE.select { |row| row.unit == :seconds }.to_h { |row| [row.name, nil] }
    serve(echo, limits: times) do |served|
      client = connect(served)
      2.times { assert_equal "abc", client.get("POST / HTTP/1.1", "abc", content_length: 3).body }
    end
  end
end

GyreTest::Engines.test_case("HTTP1LimitsContract", backends: GyreTest::Engines::NATIVE.first(1), &cases)
GyreTest::H2Contract.test_case("HTTP2LimitsContract", :limits, &cases)
