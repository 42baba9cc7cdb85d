# frozen_string_literal: true

# Every limit of Gyre::HTTP::Limits on the wire: what is just allowed, the response beyond, and that
# no other connection notices. Times are parameters, so nothing here waits longer than it must.

require "test_helper"
require "http/contract"

module HTTPLimitsContract
  include GyreTest::HTTPServing

  HELLO = ->(_env) { [200, {}, ["hello"]] }
  ECHO = ->(env) { [200, {}, [env["rack.input"].read]] }

  def test_a_request_line_up_to_its_limit_is_read_and_beyond_it_gets_414
    serve(HELLO, limits: { request_line_bytes_limit: 64 }) do |served|
      line = "GET /#{"a" * (64 - "GET / HTTP/1.1\r\n".bytesize)} HTTP/1.1"
      assert_equal 200, get(served, line).status
      client = connect(served)
      client.request(line.sub("/", "/a"))
      assert_refused(client, 414)
    end
  end

  def test_a_body_announced_too_long_gets_413_without_the_app
    called = 0
    app = lambda do |env|
      called += 1
      ECHO.call(env)
    end
    serve(app, limits: { body_bytes_limit: 1000 }) do |served|
      assert_equal "x" * 1000, get(served, "POST / HTTP/1.1", "x" * 1000, content_length: 1000).body
      assert_refused(connect(served).request("POST / HTTP/1.1", content_length: 1001, expect: "100-continue"), 413)
      assert_refused(connect(served).request("POST / HTTP/1.1", "x" * 500_000, content_length: 500_000), 413)
      assert_equal 1, called
    end
  end

  def test_a_chunked_body_that_grows_too_long_gets_413
    serve(ECHO, limits: { body_bytes_limit: 1000 }) do |served|
      body = ->(size) { "#{size.to_s(16)}\r\n#{"x" * size}\r\n0\r\n\r\n" }
      assert_equal 1000, get(served, "POST / HTTP/1.1", body.call(1000), transfer_encoding: "chunked").body.bytesize
      assert_refused(connect(served).request("POST / HTTP/1.1", body.call(1001), transfer_encoding: "chunked"), 413)
    end
  end

  def test_trailers_that_are_too_long_get_431
    serve(ECHO, limits: { trailer_bytes_limit: 100 }) do |served|
      assert_equal "", get(served, "POST / HTTP/1.1", "0\r\nx: #{"y" * 50}\r\n\r\n", transfer_encoding: "chunked").body
      assert_refused(connect(served).request("POST / HTTP/1.1", "0\r\nx: #{"y" * 150}", transfer_encoding: "chunked"), 431)
    end
  end

  def test_an_app_may_respond_to_a_body_that_is_too_long_by_itself
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

  def test_an_idle_connection_is_closed_without_a_word
    serve(HELLO, limits: { keep_alive_timeout_s: 0.05 }) do |served|
      client = connect(served)
      taken = duration_s do
        assert_equal 200, client.get.status
        assert client.ended?
      end
      assert_operator taken, :>, 0.03
      eventually { served.stats[:connections].zero? }
    end
  end

  def test_a_body_that_stops_gets_408
    serve(ECHO, limits: { read_timeout_s: 0.05 }) do |served|
      assert_refused(connect(served).request("POST / HTTP/1.1", "abc", content_length: 10), 408)
    end
  end

  def test_a_body_may_be_slow_as_long_as_it_goes_on
    within_limits(0.5, 2, 8, what: "a body that takes longer than either limit") do |limit_s|
      serve(ECHO, limits: { read_timeout_s: limit_s, head_timeout_s: limit_s, body_rate_bytes_limit: 0 }) do |served|
        in_time? do
          client = connect(served).request("POST / HTTP/1.1", content_length: 5)
          "hello".each_char { |byte| sleep(limit_s * 0.3) && client.write(byte) }
          client.response.body == "hello"
        end
      end
    end
  end

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

  def test_a_body_that_goes_on_for_too_long_gets_408
    serve(ECHO, limits: { body_timeout_s: 0.1 }) do |served|
      client = trickle(connect(served).request("POST / HTTP/1.1", content_length: 100_000))
      assert_refused(client, 408, /did not come in time/)
    end
  end

  def test_a_body_that_is_too_slow_on_average_gets_408
    serve(ECHO, limits: { body_grace_timeout_s: 0.05, body_rate_bytes_limit: 10_000 }) do |served|
      client = trickle(connect(served).request("POST / HTTP/1.1", content_length: 100_000))
      assert_refused(client, 408, /comes too slowly/)
    end
  end

  def test_a_body_has_earned_its_time_by_what_came_before
    serve(ECHO, limits: { body_grace_timeout_s: 0.5, body_rate_bytes_limit: 1000 }) do |served|
      client = connect(served).request("POST / HTTP/1.1", "x" * 99_999, content_length: 100_000) # 100 s worth
      sleep 0.55
      assert_equal 100_000, client.write("x").response.body.bytesize
    end
  end

  def test_an_app_may_take_its_time_with_a_body
    app = lambda do |env|
      body = +""
      while (piece = env["rack.input"].read(1))
        sleep 0.05
        body << piece
      end
      [200, {}, [body]]
    end
    limits = { body_timeout_s: 0.1, body_grace_timeout_s: 0.1, body_rate_bytes_limit: 1_000_000 }
    serve(app, limits: limits) do |served|
      # More than once only where the machine stands still.
      eventually(what: "the whole body") { get(served, "POST / HTTP/1.1", "hello", content_length: 5).body == "hello" }
    end
  end

  def test_time_in_which_the_loop_was_held_is_not_the_clients
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
  def test_a_request_that_came_while_the_loop_was_held_has_come_in_time
    # The longer one only where the connections alone take as long as the other.
    statuses = [3, 20].lazy.filter_map { |limit_s| statuses_of_requests_while_held(limit_s) }.first
    assert_equal [200], statuses.uniq
  end

  def statuses_of_requests_while_held(limit_s)
    serve(HELLO, limits: { first_byte_timeout_s: limit_s, head_timeout_s: limit_s }, backlog: 1000) do |served|
      clients = Array.new(300) { connect(served) }
      eventually { served.stats[:accepted] == clients.size }
      hold(served) do
        next unless served.server.stats[:connections] == clients.size

        clients.each(&:request)
        sleep limit_s + 0.1
        clients
      end&.map { |client| client.response.status }
    end
  end

  def test_without_a_rate_and_a_time_a_body_may_trickle
    serve(ECHO, limits: { body_grace_timeout_s: 0.001, body_rate_bytes_limit: 0, body_timeout_s: nil }) do |served|
      client = connect(served).request("POST / HTTP/1.1", content_length: 5)
      "hello".each_char { |byte| client.write(byte).silent?(0.01) }
      assert_equal "hello", client.response.body
    end
  end

  def test_a_client_that_reads_slowly_is_not_dropped
    within_limits(0.5, 2, 8, what: "a response that takes longer than the limit") do |limit_s|
      serve(->(_env) { [200, {}, ["x" * 6_000_000]] }, limits: { write_timeout_s: limit_s }, buffers: 100_000) do |served|
        in_time? do
          client = connect(served).request
          client.take_through("\r\n\r\n")
          12.times { client.take(500_000) && sleep(limit_s / 10.0) }
          client.get.status == 200
        end
      end
    end
  end

  def test_times_may_be_unlimited
    times = Gyre::HTTP::Limits::TABLE.select { |row| row.type.unit == :seconds }.to_h { |row| [row.name, nil] }
    serve(ECHO, limits: times) do |served|
      client = connect(served)
      2.times { assert_equal "abc", client.get("POST / HTTP/1.1", "abc", content_length: 3).body }
    end
  end
end

GyreTest::HTTPContract.run(HTTPLimitsContract, backends: GyreTest::Engines::NATIVE.first(1))
