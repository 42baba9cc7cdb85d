# frozen_string_literal: true

# What a server owes to clients: requests in, responses out, over real sockets.

require "test_helper"
require "time"
require "http/contract"

module HTTPMessagesContract
  include GyreTest::HTTPServing

  HELLO = ->(_env) { [200, { "content-type" => "text/plain" }, ["hello"]] }

  # Responses with what arrived.
  ECHO = lambda do |env|
    [200, {}, ["#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]} #{env["QUERY_STRING"]} #{env["rack.input"].read}"]]
  end

  def test_a_request_gets_its_response
    serve(HELLO) do |served|
      before = Time.now.to_i
      response = get(served)
      assert_equal [200, "hello", "5", "text/plain"], [response.status, response.body, response["content-length"], response["content-type"]]
      assert_match(/\A\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\z/, response["date"])
      assert_includes (before - 2)..Time.now.to_i, Time.strptime(response["date"], "%a, %d %b %Y %H:%M:%S %Z").to_i
      assert_nil response["connection"]
      assert_nil response["transfer-encoding"]
      assert response.head.start_with?("HTTP/1.1 200 OK\r\n"), response.head unless http2?
    end
  end

  def test_a_connection_serves_many_requests_one_after_the_other
    serve(ECHO) do |served|
      client = connect(served)
      20.times { |number| assert_equal "GET /#{number} a=#{number} ", client.get("GET /#{number}?a=#{number} HTTP/1.1").body }
      assert_equal [1, 20], served.stats.values_at(:accepted, :requests)
    end
  end

  def test_an_idle_connection_holds_no_handler
    serve(HELLO) do |served|
      client = connect(served)
      client.get
      eventually { served.stats.values_at(:connections, :idle, :running) == [1, 1, 0] }
      assert_equal "hello", client.get.body
    end
  end

  def test_head_gets_the_head_of_get
    serve(lambda do |env|
      case env["PATH_INFO"]
      when "/array"  then [200, {}, ["hello"]]
      when "/given"  then [200, { "content-length" => "77" }, []]
      when "/empty"  then [200, {}, []]
      when "/each"   then [200, {}, %w[a b].each]
      when "/length" then [200, { "content-length" => "2" }, %w[a b].each]
      else [200, {}, ->(stream) { stream.write("never") }]
      end
    end) do |served|
      client = connect(served)
      chunked = http2? ? nil : "chunked"
      heads = %w[array given empty each length call].to_h do |path|
        response = client.get("HEAD /#{path} HTTP/1.1")
        [path, [response.status, response["content-length"], response["transfer-encoding"]]]
      end
      assert_equal({ "array" => [200, "5", nil], "given" => [200, "77", nil], "empty" => [200, nil, nil], "each" => [200, nil, chunked],
                     "length" => [200, "2", nil], "call" => [200, nil, chunked] }, heads)
      assert_equal "hello", client.get("GET /array HTTP/1.1").body
    end
  end

  def test_204_and_304_have_no_body_and_204_no_length
    serve(lambda do |env|
      status = env["PATH_INFO"][1, 3].to_i
      body = env["PATH_INFO"].end_with?("each") ? ["no"].each : ["no"]
      headers = env["QUERY_STRING"].empty? ? {} : { "content-length" => env["QUERY_STRING"] }
      [status, headers, body]
    end) do |served|
      client = connect(served)
      seen = ["204", "204/each", "304", "304/each", "304?12", "304/each?12", "204?12"].to_h do |path|
        response = client.get("GET /#{path} HTTP/1.1")
        [path, [response.status, response["content-length"], response["transfer-encoding"]]]
      end
      assert_equal({ "204" => [204, nil, nil], "204/each" => [204, nil, nil], "304" => [304, nil, nil], "304/each" => [304, nil, nil],
                     "304?12" => [304, "12", nil], "304/each?12" => [304, "12", nil], "204?12" => [204, nil, nil] }, seen)
    end
  end

  def test_the_environment_is_racks
    seen = nil
    app = lambda do |env|
      seen = env.dup
      [200, {}, []]
    end
    serve(app) do |served|
      client = connect(served)
      several = { x_one: "1", X_ONE: "2", cookie: "a=b", Cookie: "c=d", :"Under_score" => "kept with -" }
      several = { x_one: %w[1 2], cookie: %w[a=b c=d], under_score: "kept with -" } if http2?
      client.get("POST /p?q HTTP/1.1", "hey", content_length: 3, content_type: "text/x", **several)
      expected = { "REQUEST_METHOD" => "POST", "SCRIPT_NAME" => "", "PATH_INFO" => "/p", "QUERY_STRING" => "q", "REQUEST_URI" => "/p?q",
                   "SERVER_NAME" => "gyre.test", "SERVER_PORT" => tls? ? "443" : "80",
                   "SERVER_PROTOCOL" => http2? ? "HTTP/2.0" : "HTTP/1.1", "REMOTE_ADDR" => "127.0.0.1",
                   "HTTP_HOST" => "gyre.test", "CONTENT_LENGTH" => "3", "CONTENT_TYPE" => "text/x", "HTTP_X_ONE" => "1, 2",
                   "HTTP_COOKIE" => "a=b; c=d", "HTTP_UNDER_SCORE" => "kept with -",
                   "rack.url_scheme" => tls? ? "https" : "http", "rack.hijack?" => true }
      expected["HTTPS"] = "on" if tls?
      assert_equal expected, seen.slice(*expected.keys)
      assert_equal [], seen["rack.response_finished"]
      assert_empty expected.keys.grep_v(/rack/).reject { |key| seen[key].encoding == Encoding::BINARY }, "not BINARY"
      refute seen["PATH_INFO"].frozen?
      others = %w[rack.input rack.errors rack.hijack rack.early_hints rack.response_finished rack.after_reply gyre.client_gone gyre.response_trailers]
      others << "gyre.trailers" if http2? # any of its bodies may have some
      assert_empty seen.keys - expected.keys - others
    end
  end

  def test_expect_continue_is_met_when_the_app_reads
    reads = Thread::Queue.new
    app = lambda do |env|
      reads << :called
      [200, {}, [env["rack.input"].read]]
    end
    serve(app) do |served|
      client = connect(served)
      client.request("POST / HTTP/1.1", content_length: 5, expect: "100-continue")
      assert_equal [100, {}], client.response(interim: true).then { |response| [response.status, response.fields.to_h] }
      assert_equal :called, reads.pop
      client.write("hello")
      assert_equal "hello", client.response.body
      assert_equal "again", client.get("POST / HTTP/1.1", "again", content_length: 5).body
    end
  end

  def test_a_small_body_that_the_app_left_is_read_off
    serve(->(env) { [200, {}, [env["PATH_INFO"]]] }) do |served|
      client = connect(served)
      3.times do |number|
        assert_equal "/a", client.get("POST /a HTTP/1.1", "x" * 60_000, content_length: 60_000).body
        assert_equal "/b", client.get("POST /b HTTP/1.1", "3\r\nabc\r\n0\r\n\r\n", transfer_encoding: "chunked").body
        assert_equal number * 2 + 2, served.stats[:requests]
      end
    end
  end

  def test_trailers_can_be_read_after_the_body
    app = lambda do |env|
      trailers = env["gyre.trailers"]
      before = trailers.call
      body = env["rack.input"].read
      [200, {}, [[body, before, trailers.call].inspect]]
    end
    serve(app) do |served|
      client = connect(served)
      body = "3\r\nabc\r\n0\r\nX-Sum: 1\r\nx-sum: 2\r\nother:\r\n\r\n"
      2.times do
        response = client.get("POST / HTTP/1.1", body, transfer_encoding: "chunked")
        assert_equal ["abc", {}, { "x-sum" => "1, 2", "other" => "" }].inspect, response.body
      end
    end
  end

  def test_a_client_that_closes_its_half_still_gets_the_response
    return if tls? # its end is the connection's

    serve(ECHO) do |served|
      client = connect(served)
      client.request("POST /a HTTP/1.1", "abc", content_length: 3)
      client.socket.shutdown(:WR)
      assert_equal "POST /a  abc", client.response.body
      assert client.ended?
    end
  end
end

GyreTest::HTTPContract.run(HTTPMessagesContract)
