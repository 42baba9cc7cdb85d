# frozen_string_literal: true

# Requests and responses as only HTTP/2 carries them (RFC 9113, section 8), and its limits. What
# they have in common with HTTP/1 is in test/contracts.

require "test_helper"
require "support/engines"
require "http/h2/serving"

module H2Messages
  include GyreTest::H2Serving

  H2 = GyreTest::H2

  INSPECTED = lambda do |*names|
    ->(env) { [200, {}, [env.values_at(*names).inspect]] }
  end

  def send_fields(client, fields, **options)
    client.open_fields(fields, **options)
  end

  def test_pseudo_header_fields_become_the_environment
    names = %w[REQUEST_METHOD SCRIPT_NAME PATH_INFO QUERY_STRING REQUEST_URI SERVER_NAME SERVER_PORT HTTP_HOST SERVER_PROTOCOL rack.url_scheme]
    serve(INSPECTED.call(*names)) do |served|
      client = connect(served)
      assert_equal ["PUT", "", "/a%20b", "c=d?e", "/a%20b?c=d?e", "gyre.test", "8080", "gyre.test:8080", "HTTP/2.0", "http"].inspect,
                   client.get("PUT /a%20b?c=d?e", host: "gyre.test:8080").body
      fields = [%w[:method GET], %w[:scheme http], %w[:path /], %w[host other:81]]
      assert_equal %w[other 81 other:81], eval(send_fields(client, fields).response.body)[5, 3]
      asterisk = [%w[:method OPTIONS], %w[:scheme http], %w[:path *], %w[:authority a]]
      assert_equal %w[OPTIONS * *], eval(send_fields(client, asterisk).response.body).values_at(0, 2, 4)
    end
  end

  def test_crumbs_of_a_cookie_and_repeated_fields_are_joined
    serve(INSPECTED.call("HTTP_COOKIE", "HTTP_X", "HTTP_A_B", "CONTENT_TYPE", "HTTP_CONTENT_TYPE", "HTTP_TE")) do |served|
      body = connect(served).get(cookie: %w[a=1 b=2 c=3], x: %w[one two], content_type: "text/plain", te: "trailers").body
      assert_equal ["a=1; b=2; c=3", "one, two", nil, "text/plain", nil, "trailers"].inspect, body
      fields = [*H2.request, %w[a_b spoofed], %w[a-b real]] # CVE-2024-45614
      assert_equal "real", eval(send_fields(connect(served), fields).response.body)[2]
    end
  end

  def test_malformed_requests_end_their_streams_only
    long = "x" * 300
    malformed = {
      "a space in a name" => [["x y", "z"]], "an empty name" => [["", "z"]], "a colon in a name" => [["x:y", "z"]],
      "a line feed in a value" => [["x", "a\nb"]], "a carriage return in a value" => [["x", "a\rb"]], "a NUL in a value" => [["x", "a\0b"]],
      "Transfer-Encoding" => [%w[transfer-encoding chunked]], "Upgrade" => [%w[upgrade websocket]], "Keep-Alive" => [%w[keep-alive 5]],
      "Proxy-Connection" => [%w[proxy-connection close]], "no number as content-length" => [%w[content-length 1x]],
      "a negative content-length" => [%w[content-length -1]], "two content-lengths" => [%w[content-length 0], %w[content-length 1]],
      "a content-length and no body" => [%w[content-length 5]]
    }
    targets = { "no path" => [":path", "a"], "a fragment" => [":path", "/a#b"], "a space" => [":path", "/a b"], "two hosts" => [":authority", "a b"],
                "user information" => [":authority", "user@a"], "a method that is none" => [":method", "GE T"], "a scheme" => [":scheme", "h t"] }
    called = 0
    serve(->(_env) { [200, {}, [(called += 1).to_s]] }) do |served|
      client = connect(served)
      requests = malformed.transform_values { |more| H2.request + more }
      requests.update(targets.to_h { |what, (name, value)| [what, H2.request.map { |field| field[0] == name ? [name, value] : field }] })
      requests["a host that is not the authority"] = [*H2.request, %w[host other.test]]
      requests["a NUL in a long value"] = [*H2.request, ["x", "#{long}\0"]]
      requests.each do |what, fields|
        stream = send_fields(client, fields)
        client.wait { stream.over? }
        assert stream.error == :protocol_error || stream.status == 400, "#{what}: #{stream.status.inspect}, #{stream.error.inspect}"
      end
      assert_equal "1", client.get.body
      eventually { served.stats[:running].zero? }
    end
  end

  def test_responses_have_no_fields_of_connections
    headers = { "Connection" => "close", "keep-alive" => "1", "Upgrade" => "x", "proxy-connection" => "y", "X-Cased" => "Kept",
                "set-cookie" => %w[a=1 b=2] }
    serve(->(env) { [200, headers, env["PATH_INFO"] == "/each" ? %w[a b].each : ["ab"]] }) do |served|
      client = connect(served)
      %w[/ /each].each do |path|
        response = client.get("GET #{path}")
        assert_equal ["ab", "Kept", 2], [response.body, response["x-cased"], response.count("set-cookie")]
        assert_equal [nil] * 5, (%w[connection keep-alive transfer-encoding upgrade proxy-connection].map { |name| response[name] })
        assert_match(/ GMT\z/, response["date"])
        assert_equal response.fields.map(&:first), response.fields.map { |name, _| name.downcase }
      end
    end
  end

  def test_heads_without_a_body_end_their_streams
    app = lambda do |env|
      status = Integer(env["PATH_INFO"][1..])
      [status, {}, [204, 304].include?(status) ? [] : ["hello"]]
    end
    serve(app) do |served|
      client = connect(served)
      { "HEAD /200" => "5", "GET /204" => nil, "GET /304" => nil }.each do |line, length|
        stream = client.open(line, end_stream: true)
        assert_equal [line[/\d+/].to_i, "", length], [stream.response.status, stream.response.body, stream["content-length"]]
        assert_equal [:headers], stream.frames.map(&:type), line
      end
      assert_equal ["5", "hello"], client.get("GET /200").then { |response| [response["content-length"], response.body] }
    end
  end

  def test_100_continue_is_sent_when_the_app_reads
    app = ->(env) { [200, {}, [env["PATH_INFO"] == "/read" ? env["rack.input"].read : "unread"]] }
    serve(app) do |served|
      client = connect(served)
      stream = client.open("POST /read", expect: "100-continue", content_length: 4)
      client.wait { !stream.interims.empty? }
      assert_equal 100, stream.interims[0][0]
      assert_equal ["body"], [stream.write("body", end_stream: true).response.body]
      stream = client.open("POST /unread", expect: "100-continue", content_length: 4)
      client.wait { stream.status }
      assert_empty stream.interims
    end
  end

  def test_connect_is_a_tunnel
    app = lambda do |env|
      [200, {}, lambda do |stream|
        stream.write("#{env["PATH_INFO"]}: #{stream.read(2)}")
        stream.close
      end]
    end
    serve(app) do |served|
      stream = connect(served).open_fields([%w[:method CONNECT], %w[:authority a:443]], end_stream: false)
      assert_equal "a:443: hi", stream.head.write("hi").response.body
    end
  end

  def test_requests_wait_for_a_place_and_beyond_the_queue_get_503
    go = Thread::Queue.new
    app = ->(env) { [200, {}, [env["PATH_INFO"] == "/wait" ? go.pop : "hello"]] }
    serve(app, limits: { requests_limit: 2, queue_limit: 3 }) do |served|
      client = connect(served)
      streams = Array.new(7) { client.open("GET /wait", end_stream: true) }
      client.wait { streams.count(&:over?) == 2 }
      shed, others = streams.partition(&:over?)
      assert_equal [[503, "1"]] * 2, (shed.map { |stream| [stream.status, stream["retry-after"]] })
      others.pop.reset # while it waits
      4.times { |number| go << number.to_s }
      assert_equal %w[0 1 2 3], others.map { |stream| stream.response.body }.sort
      eventually { served.stats.values_at(:running, :waiting, :shed, :malformed) == [0, 0, 2, 0] }
    end
  end

  def test_a_connection_that_is_cut_takes_its_waiting_requests_along
    go = Thread::Queue.new
    serve(->(_env) { [200, {}, [go.pop]] }, limits: { requests_limit: 2, queue_limit: 3 }) do |served|
      client = connect(served)
      5.times { client.open("GET /", end_stream: true) }
      eventually { served.stats.values_at(:running, :waiting) == [2, 3] }
      client.reset
      eventually { served.stats[:waiting].zero? }
      3.times { go << "hello" }
      eventually { served.stats[:running].zero? }
      assert_equal "hello", get(served).body
    end
  end

  # --- limits ---

  def test_too_many_fields_or_too_long_ones_end_their_stream_only
    serve(->(_env) { [200, {}, ["hello"]] }, limits: { header_count_limit: 10, header_bytes_limit: 2000 }) do |served|
      client = connect(served)
      assert_equal "hello", client.get(**Array.new(5) { |number| [:"x#{number}", "y"] }.to_h).body
      [Array.new(20) { |number| ["x-#{number}", "y"] }, [["x", "y" * 3000]], [["y" * 3000, "x"]]].each do |more|
        stream = send_fields(client, H2.request + more)
        client.wait { stream.over? }
        assert stream.status == 431 || %i[refused_stream protocol_error enhance_your_calm cancel internal_error].include?(stream.error),
               "#{stream.status.inspect}, #{stream.error.inspect}"
        assert_equal "hello", client.get.body
      end
    end
  end

  def test_a_body_beyond_its_limit_gets_413
    serve(->(env) { [200, {}, [env["rack.input"].read]] }, limits: { body_bytes_limit: 1000 }) do |served|
      client = connect(served)
      assert_equal "x" * 1000, client.post("/", "x" * 1000).body
      [{ content_length: 1001 }, {}].each do |fields|
        stream = client.open("POST /", **fields).write("x" * 1001)
        client.wait { stream.status }
        assert_equal 413, stream.status
      end
      assert_equal "x", client.post("/", "x").body
    end
  end

  def test_the_last_request_that_a_connection_may_make_is_told_by_goaway
    serve(->(_env) { [200, {}, ["hello"]] }, limits: { keep_alive_requests_limit: 3 }) do |served|
      client = connect(served)
      3.times { assert_equal "hello", client.get.body }
      assert_equal :no_error, client.failure
      eventually { served.stats[:connections].zero? }
    end
  end

  def test_http1_is_served_on_the_same_listeners
    app = INSPECTED.call("SERVER_PROTOCOL")
    serve(app) do |served|
      assert_equal '["HTTP/1.1"]', connect_http1(served).get.body
      assert_equal '["HTTP/2.0"]', connect(served).get.body
      # What begins as the preface does and is none.
      ["PRI * HTTP/2.0\r\n\r\nSM\r\n\rx", "PRI * HTTP/2.0\r\nhost: a\r\n\r\n", "PRIX / HTTP/1.1\r\nhost: a\r\n\r\n", "PRI /"].each do |bytes|
        client = connect_http1(served).write(bytes)
        client.socket.shutdown(:WR)
        client.rest
      end
      assert_equal '["HTTP/1.1"]', connect_http1(served).get("PATCH / HTTP/1.1").body
    end
  end
end

GyreTest::Engines.test_case("H2MessagesTest", backends: GyreTest::H2Serving::BACKENDS.first(1)) { include H2Messages }
