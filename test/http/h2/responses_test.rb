# frozen_string_literal: true

# What apps may send and be told on streams of HTTP/2: trailers (of HTTP/1.1, too), streams both
# ways, files, compressed bodies; limits, ends and the order of streams.

require "test_helper"
require "tempfile"
require "zlib"
require "support/engines"
require "http/h2/serving"
require "gyre/http/static"
require "gyre/http/compression"

module H2Responses
  include GyreTest::H2Serving

  H2 = GyreTest::H2

  # --- trailers of responses ---

  SUMMED = lambda do |env|
    trailers = env["gyre.response_trailers"]
    trailers["x-sum"] = "early"
    body = Enumerator.new do |parts|
      parts << "one" << "two"
      trailers["x-sum"] = %w[1 2]
    end
    [200, { "trailer" => "x-sum" }, body]
  end

  def test_trailers_follow_a_body_over_both_versions
    serve(SUMMED) do |served|
      client = connect(served)
      2.times do
        response = client.get
        assert_equal ["onetwo", [%w[x-sum 1], %w[x-sum 2]]], [response.body, response.trailers]
      end
      client = connect_http1(served).request
      assert_match(/transfer-encoding: chunked/, client.take_through("\r\n\r\n"))
      assert_equal %w[one two], [client.chunk, client.chunk]
      assert_equal "0\r\nx-sum: 1\r\nx-sum: 2\r\n\r\n", client.take_through("\r\n\r\n")
    end
  end

  def test_trailers_follow_a_body_that_is_an_array
    app = lambda do |env|
      env["gyre.response_trailers"]["x-sum"] = "1"
      [200, {}, ["all"]]
    end
    serve(app) do |served|
      response = connect(served).get
      assert_equal ["all", [%w[x-sum 1]]], [response.body, response.trailers]
    end
  end

  def test_what_may_not_be_a_trailer_cuts_its_response_only
    names = %w[content-length Transfer-Encoding set-cookie host connection]
    app = lambda do |env|
      name = env["QUERY_STRING"]
      next [200, {}, ["hello"]] if name.empty?

      [200, {}, Enumerator.new { |parts| parts << "begun" and env["gyre.response_trailers"][name] = "5" }]
    end
    serve(app) do |served|
      client = connect(served)
      names.each do |name|
        stream = client.open("GET /?#{name}", end_stream: true)
        assert_equal :internal_error, stream.failure, name
        expect_errors(served, /cannot be a trailer/)
        assert_equal "hello", client.get.body
        first = connect_http1(served).request("GET /?#{name} HTTP/1.1")
        refute_includes first.rest, "0\r\n\r\n"
        expect_errors(served, /cannot be a trailer/)
      end
    end
  end

  # --- extended CONNECT (RFC 8441) ---

  def websocket(client, path = "/chat", protocol: "websocket")
    fields = [%w[:method CONNECT], [":protocol", protocol], [":scheme", tls? ? "https" : "http"], [":path", path], %w[:authority gyre.test]]
    client.open_fields(fields, end_stream: false)
  end

  def test_extended_connect_is_a_stream_both_ways
    seen = nil
    app = lambda do |env|
      seen = env.values_at("REQUEST_METHOD", "PATH_INFO", "rack.protocol")
      [200, { "rack.protocol" => "websocket" }, lambda do |stream|
        2.times { stream.write("got #{stream.read(3)}") }
        stream.close
      end]
    end
    serve(app) do |served|
      client = connect(served).greet
      assert_equal 1, client.settings[:enable_connect_protocol]
      stream = websocket(client).head
      assert_equal [200, ["GET", "/chat", ["websocket"]]], [stream.status, seen]
      %w[one two].each { |word| assert_equal "got #{word}", stream.write(word).take(7) }
      assert_nil stream.read
      eventually { served.stats[:running].zero? }
    end
  end

  # Browsers open WebSockets by CONNECT then, which apps with rack.hijack cannot serve.
  def test_optional_parts_of_http_are_not_offered_unless_asked_for
    serve(->(env) { [200, {}, [env.key?("rack.early_hints").to_s]] }, early_hints: false, extended_connect: false) do |served|
      client = connect(served).greet
      assert_nil client.settings[:enable_connect_protocol]
      assert_equal "false", client.get.body
      assert_equal "false", connect_http1(served).request("GET / HTTP/1.1").response.body
      assert_equal :protocol_error, websocket(client).failure
    end
  end

  # It has no end that others could wait for.
  def test_a_stream_both_ways_holds_no_place_and_has_no_limit_of_time
    both = lambda do |stream|
      while (word = stream.read(3)) do stream.write(word) end
    end
    app = lambda do |env|
      next [200, { "rack.protocol" => "websocket" }, both] if env["rack.protocol"]

      env["PATH_INFO"] == "/hijack" ? [200, { "rack.hijack" => both }, []] : [200, {}, ["hello"]]
    end
    serve(app, limits: { requests_limit: 1, request_timeout_s: 0.2, body_ahead_bytes_limit: 0 }) do |served|
      client = connect(served)
      streams = [websocket(client).head, client.open("POST /hijack").head]
      assert_equal "hello", client.get.body
      sleep 0.3 # beyond the limit
      streams.each { |stream| assert_equal "one", stream.write("one").take(3) }
      streams.each(&:finish)
    end
  end

  def test_extended_connect_that_the_app_refuses
    serve(->(_env) { [403, {}, ["no"]] }) do |served|
      client = connect(served).greet
      2.times { assert_equal 403, websocket(client).head.status }
    end
  end

  def test_extended_connect_that_its_client_resets
    failures = Thread::Queue.new
    body = lambda do |stream|
      stream.write("x")
      failures << stream.read(1)
    rescue IOError, SystemCallError => error
      failures << error
    end
    serve(->(_env) { [200, { "rack.protocol" => "websocket" }, body] }) do |served|
      client = connect(served).greet
      stream = websocket(client).head
      assert_equal "x", stream.take(1)
      stream.reset
      assert_kind_of IOError, failures.pop
      eventually { served.stats[:running].zero? }
    end
  end

  # --- files ---

  def test_files_and_their_ranges
    Dir.mktmpdir do |folder|
      content = Random.new(1).bytes(1_500_001)
      File.binwrite(File.join(folder, "file"), content)
      File.binwrite(File.join(folder, "empty"), "")
      root = Gyre::HTTP::Files::Root.new(folder)
      serve(Gyre::HTTP::Static.new(->(_env) { [404, {}, ["none"]] }, root)) do |served|
        client = connect(served)
        assert_equal ["1500001", content], client.get("GET /file").then { |response| [response["content-length"], response.body] }
        assert_equal "", client.get("GET /empty").body
        part = client.get("GET /file", range: "bytes=70000-1499999")
        assert_equal [206, content[70_000..1_499_999]], [part.status, part.body]
        assert_equal ["1500001", ""], client.get("HEAD /file").then { |response| [response["content-length"], response.body] }
        assert_equal 416, client.get("GET /file", range: "bytes=1500001-").status
        assert_equal "none", client.get("GET /other").body
        streams = Array.new(2) { client.open("GET /file", end_stream: true) }
        assert_equal [content], streams.map { |stream| stream.response.body }.uniq
      end
    ensure
      root&.close
    end
  end

  def test_a_compressed_response
    text = "hello " * 10_000
    app = Gyre::HTTP::Compression.new(->(_env) { [200, { "content-type" => "text/plain" }, [text]] })
    serve(app) do |served|
      response = connect(served).get("GET /", accept_encoding: "gzip")
      assert_equal ["gzip", text], [response["content-encoding"], Zlib.gunzip(response.body)]
    end
  end

  # --- limits and ends of streams ---

  def test_streams_of_one_connection_share_the_places_of_requests
    running = most = 0
    gate = Thread::Queue.new
    app = lambda do |env|
      most = [most, running += 1].max
      gate.pop
      running -= 1
      [200, {}, [env["PATH_INFO"]]]
    end
    serve(app, limits: { requests_limit: 2, queue_limit: 3 }) do |served|
      client = connect(served)
      streams = Array.new(6) { |number| client.open("GET /#{number}", end_stream: true) }
      assert_equal [503, "1"], [streams[5].head.status, streams[5]["retry-after"]]
      5.times { gate << true }
      assert_equal %w[/0 /1 /2 /3 /4], streams.first(5).map { |stream| stream.response.body }
      assert_equal [2, 3, 1], [most, *served.stats.values_at(:waited, :shed)]
    end
  end

  def test_a_stream_that_is_reset_in_the_queue_never_runs
    gate = Thread::Queue.new
    seen = []
    app = lambda do |env|
      seen << env["PATH_INFO"]
      gate.pop
      [200, {}, []]
    end
    serve(app, limits: { requests_limit: 1 }) do |served|
      client = connect(served)
      first, gone, last = Array.new(3) { |number| client.open("GET /#{number}", end_stream: true) }
      eventually { served.stats[:waiting] == 2 }
      gone.reset
      eventually { served.stats[:waiting] == 1 }
      2.times { gate << true }
      assert_equal [200, 200, %w[/0 /2]], [first.response.status, last.response.status, seen]
    end
  end

  def test_a_request_that_takes_too_long_ends_its_stream_only
    app = lambda do |env|
      case env["PATH_INFO"]
      when "/wait" then sleep
      when "/body" then [200, {}, Enumerator.new { |parts| parts << "begun" && sleep }]
      else [200, {}, ["hello"]]
      end
    end
    serve(app, limits: { request_timeout_s: 0.02 }) do |served|
      client = connect(served)
      assert_equal 503, client.get("GET /wait").status
      expect_errors(served, /took longer/)
      assert_equal :internal_error, client.open("GET /body", end_stream: true).failure
      expect_errors(served, /took longer/)
      assert_equal "hello", client.get.body
    end
  end

  def test_an_app_is_told_that_the_client_has_reset_its_stream
    notes = Thread::Queue.new
    app = lambda do |env|
      next [200, {}, ["hello"]] if env["PATH_INFO"] == "/other"

      notes << env["gyre.client_gone"].gone?
      notes << env["gyre.client_gone"].wait
      notes << env["gyre.client_gone"].gone?
      [200, {}, []]
    end
    serve(app) do |served|
      client = connect(served)
      %i[cancel no_error].each do |code| # Node's req.close() gives none
        stream = client.open("GET /", end_stream: true)
        refute notes.pop
        assert_equal "hello", client.get("GET /other").body
        stream.reset(code)
        assert_equal [true, true], [notes.pop, notes.pop], code
        assert_equal "hello", client.get("GET /other").body
      end
    end
  end

  def test_a_drain_ends_by_goaway_when_its_streams_have_ended
    gate = Thread::Queue.new
    serve(->(env) { (gate.pop if env["PATH_INFO"] == "/wait").then { [200, {}, ["done"]] } }) do |served|
      idle = connect(served)
      assert_equal "done", idle.get.body
      client = connect(served)
      streams = Array.new(3) { client.open("GET /wait", end_stream: true) }
      eventually { served.stats[:running] == 3 }
      served.on_loop { served.server.drain }
      assert_equal :no_error, idle.failure
      3.times { gate << true }
      assert_equal %w[done done done], streams.map { |stream| stream.response.body }
      assert_equal :no_error, client.failure
      eventually { served.stats.values_at(:connections, :running) == [0, 0] }
    end
  end

  def test_streams_are_in_the_access_log_each
    serve(->(env) { [200, {}, [env["PATH_INFO"]]] }, log_accesses: true) do |served|
      client = connect(served)
      streams = %w[/a /bc].map { |path| client.open("GET #{path}", end_stream: true) }
      streams.each(&:response)
      eventually { served.accesses.size == 2 }
      assert_equal [["HTTP/2.0", "/a", 200, 2], ["HTTP/2.0", "/bc", 200, 3]],
                   served.accesses.map { |env, status, bytes| [*env.values_at("SERVER_PROTOCOL", "PATH_INFO"), status, bytes] }.sort
      assert_equal 2, served.stats[:requests]
    end
  end

  # RFC 9218: the more urgent one is sent first, whichever came first.
  def test_an_urgent_response_is_sent_before_others
    serve(->(env) { [200, {}, [env["PATH_INFO"] * 20_000]] }) do |served|
      client = connect(served, settings: { initial_window_size: 0 })
      client.obliging = false
      later = client.open("GET /a", end_stream: true, priority: "u=6").head
      sooner = client.open("GET /b", end_stream: true, priority: "u=0").head
      client.synchronize
      client.write(H2.settings(initial_window_size: 30_000))
      order = []
      client.wait do
        order << client.frames.last.stream if client.frames.last.type == :data && client.frames.last.length.positive?
        [later, sooner].all? { |stream| order.include?(stream.id) }
      end
      assert_equal sooner.id, order.first
    end
  end
end

GyreTest::Engines.test_case("H2ResponsesTest", backends: GyreTest::H2Serving::BACKENDS.first(1)) { include H2Responses }
GyreTest::Engines.test_case("H2ResponsesOverTLSTest", backends: GyreTest::H2Serving::BACKENDS.first(1)) do
  include H2Responses

  def tls? = true
end
