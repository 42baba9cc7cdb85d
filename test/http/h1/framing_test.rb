# frozen_string_literal: true

# Transfer-Encoding, by the server and by the app itself.

require "test_helper"
require "http/contract"

module HTTP1Framing
  include GyreTest::HTTPServing

  def test_an_each_body_is_chunked_and_each_part_leaves_at_once
    go = Thread::Queue.new
    body = Enumerator.new do |parts|
      parts << "one" << ""
      go.pop
      parts << "two"
    end
    serve(->(_env) { [200, {}, body] }) do |served|
      client = connect(served)
      client.request
      assert_match(/transfer-encoding: chunked/, client.take_through("\r\n\r\n"))
      assert_equal "one", client.chunk
      assert client.silent?
      go << true
      assert_equal ["two", nil], [client.chunk, client.chunk]
    end
  end

  def test_a_streaming_body_reads_and_writes_at_the_same_time
    app = lambda do |_env|
      [200, {}, lambda do |stream|
        while (line = stream.gets)
          stream << "got " << line
        end
        stream.write("by", "e")
        stream.close
      end]
    end
    serve(app) do |served|
      client = connect(served)
      client.request("POST / HTTP/1.1", transfer_encoding: "chunked")
      client.take_through("\r\n\r\n")
      %w[one two].each do |word|
        client.write("4\r\n#{word}\n\r\n")
        assert_equal "got #{word}\n", client.take(0).then { [client.chunk, client.chunk].join }
      end
      client.write("0\r\n\r\n")
      assert_equal ["b", "ye"].join, [client.chunk, client.chunk].join
      assert_nil client.chunk
      assert_equal "got x", client.get("POST / HTTP/1.1", "x", content_length: 1).body.delete_suffix("bye")
    end
  end

  def test_the_framing_is_the_servers_and_connection_too
    app = lambda do |env|
      headers = { "transfer-encoding" => "identity", "Connection" => "keep-alive", "Date" => "today" }
      [200, headers, env["PATH_INFO"] == "/each" ? %w[a b].each : %w[a b]]
    end
    serve(app) do |served|
      client = connect(served)
      names = %w[content-length transfer-encoding connection date]
      response = client.get("GET /array HTTP/1.1")
      assert_equal ["2", nil, nil, "today", "ab"], [*names.map { |name| response[name] }, response.body]
      response = client.get("GET /each HTTP/1.1")
      assert_equal [nil, "chunked", nil, "today", "ab"], [*names.map { |name| response[name] }, response.body]
      assert_equal [1, 1], [response.count("transfer-encoding"), response.count("date")]
    end
  end

  def test_chunks_of_the_apps_own_are_passed_on
    parts = ["5\r\nhello\r\n", "0\r\n\r\n"]
    app = lambda do |env|
      [200, { "Transfer-Encoding" => "chunked" }, env["PATH_INFO"] == "/each" ? parts.each : parts]
    end
    serve(app) do |served|
      %w[/array /each].each do |path|
        client = connect(served)
        response = client.get("GET #{path} HTTP/1.1")
        assert_equal ["chunked", "close", "hello"], [response["transfer-encoding"], response["connection"], response.body], path
        assert_equal 1, response.count("transfer-encoding")
        assert client.ended?
      end
      client = connect(served)
      assert_equal 200, client.get("HEAD /array HTTP/1.1").status
      assert_equal "hello", client.get("GET /array HTTP/1.1").body
    end
  end

  def test_a_framing_of_the_apps_own_that_cannot_be_is_refused_aloud
    own = { "transfer-encoding" => "chunked" }
    responses = {
      "/array" => [200, own, ["hello"]], "/each" => [200, own, ["hello"].each], "/nothing" => [200, own, [].each],
      "/gzip" => [200, { "transfer-encoding" => "gzip" }, ["a"]], "/stream" => [200, own, ->(stream) { stream << "a" }],
      "/both" => [200, own.merge("content-length" => "5"), ["0\r\n\r\n"]]
    }
    serve(->(env) { responses[env["PATH_INFO"]] }) do |served|
      client = connect(served)
      responses.each_key do |path|
        assert_equal 500, client.get("GET #{path} HTTP/1.1").status, path
        assert_match(/GET #{path}: .*(?:transfer-encoding)/, served.errors.shift.to_s, path)
      end
      responses["/old"] = [200, own, ["0\r\n\r\n"]]
      client.write("GET /old HTTP/1.0\r\n\r\n")
      assert_equal 200, client.response.status # its content, as HTTP/1.0 has no chunks
    end
  end
end

GyreTest::HTTPContract.run(HTTP1Framing, over: %i[http1 tls])
