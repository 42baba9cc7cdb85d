# frozen_string_literal: true

# What the HTTP/1 server owes to clients: requests in, responses out, over real sockets. Framing,
# keep-alive, pipelining, versions, targets, refusals. Each case runs on each native backend.

require "test_helper"
require "time"
require "tmpdir"
require "support/engines"
require "http/serving"
require "http/h2/contract"

cases = proc do
  include GyreTest::HTTPServing

  hello = ->(_env) { [200, { "content-type" => "text/plain" }, ["hello"]] }
  # Responses with what arrived.
  echo = lambda do |env|
    [200, {}, ["#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]} #{env["QUERY_STRING"]} #{env["rack.input"].read}"]]
  end

  def sent_in_pieces(client, bytes, *cuts)
    [0, *cuts, bytes.bytesize].each_cons(2) do |from, to|
      client.write(bytes.byteslice(from, to - from))
      Thread.pass
    end
  end

  define_method(:test_a_request_gets_its_response) do
    serve(hello) do |served|
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

  define_method(:test_a_connection_serves_many_requests_one_after_the_other) do
    serve(echo) do |served|
      client = connect(served)
      20.times { |number| assert_equal "GET /#{number} a=#{number} ", client.get("GET /#{number}?a=#{number} HTTP/1.1").body }
      assert_equal [1, 20], served.stats.values_at(:accepted, :requests)
    end
  end

  define_method(:test_an_idle_connection_holds_no_handler) do
    serve(hello) do |served|
      client = connect(served)
      client.get
      eventually { served.stats.values_at(:connections, :idle, :running) == [1, 1, 0] }
      assert_equal "hello", client.get.body
    end
  end

  define_method(:test_pipelined_requests_get_their_responses_in_order) do
    serve(echo) do |served|
      client = connect(served)
      client.write((1..50).map { |number| "GET /#{number} HTTP/1.1\r\nhost: a\r\n\r\n" }.join)
      assert_equal((1..50).map { |number| "GET /#{number}  " }, Array.new(50) { client.response.body })
    end
  end

  define_method(:test_pipelined_requests_with_bodies_of_both_kinds_keep_their_borders) do
    serve(echo) do |served|
      client = connect(served)
      client.write("POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabcPOST /b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n" \
                   "2\r\nde\r\n1;x=y\r\nf\r\n0\r\n\r\nGET /c HTTP/1.1\r\nhost: a\r\n\r\n")
      assert_equal ["POST /a  abc", "POST /b  def", "GET /c  "], Array.new(3) { client.response.body }
    end
  end

  define_method(:test_requests_may_be_split_anywhere) do
    bytes = "POST /x?y=z HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabcPOST /b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n" \
            "2\r\nde\r\n0\r\nt: 1\r\n\r\nGET /c HTTP/1.1\r\nhost: a\r\n\r\n"
    serve(echo) do |served|
      client = connect(served)
      (1...bytes.bytesize).step(GyreTest::LifecycleChecks::STRESS ? 15 : 1) do |cut|
        sent_in_pieces(client, bytes, cut)
        assert_equal ["POST /x y=z abc", "POST /b  de", "GET /c  "], Array.new(3) { client.response.body }, "cut at #{cut}"
      end
      sent_in_pieces(client, bytes, *(1...bytes.bytesize))
      assert_equal ["POST /x y=z abc", "POST /b  de", "GET /c  "], Array.new(3) { client.response.body }, "byte by byte"
    end
  end

  define_method(:test_one_empty_line_before_a_request_is_skipped) do
    serve(echo) { |served| assert_equal "GET /a  ", connect(served).write("\r\n").get("GET /a HTTP/1.1").body }
  end

  define_method(:test_connection_close_is_honoured_and_said) do
    serve(hello) do |served|
      client = connect(served)
      response = client.get(connection: "close")
      assert_equal %w[close hello], [response["connection"], response.body]
      assert client.ended?
    end
  end

  define_method(:test_an_app_may_ask_for_the_end_of_the_connection) do
    serve(->(_env) { [200, { "connection" => "close" }, ["bye"]] }) do |served|
      client = connect(served)
      response = client.get
      assert_equal ["close", 1, "bye"], [response["connection"], response.count("connection"), response.body]
      assert client.ended?
    end
  end

  define_method(:test_http_1_0_closes_after_the_response) do
    serve(hello) do |served|
      client = connect(served)
      client.write("GET / HTTP/1.0\r\n\r\n")
      response = client.response
      assert_equal %w[close hello], [response["connection"], response.body]
      assert client.ended?
    end
  end

  define_method(:test_http_1_0_with_keep_alive_goes_on_and_says_so) do
    serve(echo) do |served|
      client = connect(served)
      2.times do |number|
        client.write("GET /#{number} HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
        response = client.response
        assert_equal ["keep-alive", "GET /#{number}  "], [response["connection"], response.body]
      end
    end
  end

  define_method(:test_http_1_0_gets_a_streamed_body_without_chunks_up_to_the_end) do
    serve(->(_env) { [200, {}, %w[a b c].each] }) do |served|
      client = connect(served)
      client.write("GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
      response = client.response
      assert_equal ["close", nil, nil, "abc"], [response["connection"], response["transfer-encoding"], response["content-length"], response.body]
    end
  end

  define_method(:test_head_gets_the_head_of_get) do
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

  define_method(:test_204_and_304_have_no_body_and_204_no_length) do
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

  define_method(:test_targets_of_each_form) do
    names = %w[REQUEST_METHOD PATH_INFO QUERY_STRING HTTP_HOST SERVER_NAME SERVER_PORT REQUEST_URI]
    serve(->(env) { [200, {}, [env.values_at(*names).inspect]] }) do |served|
      client = connect(served)
      seen = ["GET /a%20b?c=d HTTP/1.1", "GET http://other.test:81?q HTTP/1.1", "GET http://other.test/x?y HTTP/1.1", "OPTIONS * HTTP/1.1",
              "GET //double//slash HTTP/1.1", "GET /? HTTP/1.1"].map { |line| client.get(line).body }
      assert_equal [["GET", "/a%20b", "c=d", "gyre.test", "gyre.test", "80", "/a%20b?c=d"],
                    ["GET", "/", "q", "other.test:81", "other.test", "81", "http://other.test:81?q"],
                    ["GET", "/x", "y", "other.test", "other.test", "80", "http://other.test/x?y"],
                    ["OPTIONS", "*", "", "gyre.test", "gyre.test", "80", "*"],
                    ["GET", "//double//slash", "", "gyre.test", "gyre.test", "80", "//double//slash"],
                    ["GET", "/", "", "gyre.test", "gyre.test", "80", "/?"]].map(&:inspect), seen
    end
  end

  define_method(:test_a_1_0_request_without_host_has_the_sockets_own_name) do
    serve(->(env) { [200, {}, [env.values_at("SERVER_NAME", "SERVER_PORT", "HTTP_HOST", "SERVER_PROTOCOL").inspect]] }) do |served|
      client = connect(served).write("GET / HTTP/1.0\r\n\r\n")
      assert_equal ["127.0.0.1", served.port.to_s, nil, "HTTP/1.0"].inspect, client.response.body
    end
  end

  define_method(:test_the_environment_is_racks) do
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
                   "SERVER_NAME" => "gyre.test", "SERVER_PORT" => "80", "SERVER_PROTOCOL" => http2? ? "HTTP/2.0" : "HTTP/1.1",
                   "REMOTE_ADDR" => "127.0.0.1",
                   "HTTP_HOST" => "gyre.test", "CONTENT_LENGTH" => "3", "CONTENT_TYPE" => "text/x", "HTTP_X_ONE" => "1, 2",
                   "HTTP_COOKIE" => "a=b; c=d", "HTTP_UNDER_SCORE" => "kept with -", "rack.url_scheme" => "http", "rack.hijack?" => true }
      assert_equal expected, seen.slice(*expected.keys)
      assert_equal [], seen["rack.response_finished"]
      assert_empty expected.keys.grep_v(/rack/).reject { |key| seen[key].encoding == Encoding::BINARY }, "not BINARY"
      refute seen["PATH_INFO"].frozen?
      others = %w[rack.input rack.errors rack.hijack rack.early_hints rack.response_finished gyre.client_gone gyre.response_trailers]
      others << "gyre.trailers" if http2? # any of its bodies may have some
      assert_empty seen.keys - expected.keys - others
    end
  end

  define_method(:test_a_field_name_with_an_underscore_is_left_out) do
    serve(->(env) { [200, {}, [env["HTTP_X_FORWARDED_FOR"].inspect]] }) do |served|
      client = connect(served)
      client.write("GET / HTTP/1.1\r\nhost: a\r\nX_Forwarded_For: evil\r\nX-Forwarded_For: evil\r\n\r\n")
      assert_equal "nil", client.response.body
      client.write("GET / HTTP/1.1\r\nhost: a\r\nX-Forwarded-For: good\r\nX-Forwarded_For: evil\r\n\r\n")
      assert_equal '"good"', client.response.body
    end
  end

  define_method(:test_a_unix_socket_serves_too) do
    Dir.mktmpdir do |folder|
      app = ->(env) { [200, {}, [env.values_at("REMOTE_ADDR", "SERVER_NAME", "SERVER_PORT").inspect]] }
      serve(app, unix: File.join(folder, "s")) do |served|
        assert_equal ["", "gyre.test", "80"].inspect, get(served).body
        assert_equal ["", "localhost", "80"].inspect, connect(served).write("GET / HTTP/1.0\r\n\r\n").response.body
      end
    end
  end

  define_method(:test_expect_continue_is_met_when_the_app_reads) do
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

  define_method(:test_an_app_may_refuse_before_the_body_is_sent) do
    serve(->(_env) { [413, {}, ["too much"]] }) do |served|
      client = connect(served)
      client.request("POST / HTTP/1.1", content_length: 5_000_000, expect: "100-continue")
      response = client.response(interim: true)
      assert_equal [413, "close", "too much"], [response.status, response["connection"], response.body]
      assert client.ended?
    end
  end

  define_method(:test_no_continue_is_sent_when_the_body_has_come_already) do
    serve(echo) do |served|
      client = connect(served)
      response = client.request("POST / HTTP/1.1", "hello", content_length: 5, expect: "100-continue").response(interim: true)
      assert_equal [200, "POST /  hello", nil], [response.status, response.body, response["connection"]]
    end
  end

  define_method(:test_a_small_body_that_the_app_left_is_read_off) do
    serve(->(env) { [200, {}, [env["PATH_INFO"]]] }) do |served|
      client = connect(served)
      3.times do |number|
        assert_equal "/a", client.get("POST /a HTTP/1.1", "x" * 60_000, content_length: 60_000).body
        assert_equal "/b", client.get("POST /b HTTP/1.1", "3\r\nabc\r\n0\r\n\r\n", transfer_encoding: "chunked").body
        assert_equal number * 2 + 2, served.stats[:requests]
      end
    end
  end

  define_method(:test_a_large_body_that_the_app_left_ends_the_connection_and_the_client_sees_the_response) do
    serve(->(_env) { [200, {}, ["no, thanks"]] }) do |served|
      client = connect(served)
      client.request("POST /a HTTP/1.1", content_length: 2_000_000)
      writer = Thread.new { client.write("x" * 2_000_000) rescue nil }
      response = client.response
      assert_equal ["no, thanks", "close"], [response.body, response["connection"]]
      writer.join
      assert client.ended?
    end
  end

  define_method(:test_an_endless_chunked_body_that_the_app_left_ends_the_connection) do
    serve(->(_env) { [200, {}, ["no, thanks"]] }, limits: { unread_body_bytes_limit: 1000 }) do |served|
      client = connect(served)
      client.request("POST /a HTTP/1.1", "800\r\n#{"x" * 2048}\r\n", transfer_encoding: "chunked")
      assert_equal "no, thanks", client.response.body
      assert client.ended?
    end
  end

  define_method(:test_malformed_requests_are_refused_and_end_their_connection_only) do
    {
      "GET / HTTP/1.1\r\n\r\n" => 400, "GET /\r\n\r\n" => 400, "GET / HTTP/1.1\nhost: a\n\n" => 400,
      "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n" => 400, "GET / HTTP/1.1\r\nhost : a\r\n\r\n" => 400,
      "GET / HTTP/1.1\r\nhost: a\r\n folded: b\r\n\r\n" => 400, "GET / HTTP/2.0\r\nhost: a\r\n\r\n" => 505,
      "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\na" => 400,
      "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +1\r\n\r\na" => 400,
      "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999999\r\n\r\na" => 400,
      "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" => 400,
      "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n" => 400,
      "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n" => 501,
      "POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" => 400,
      "GET / HTTP/1.1\r\nhost: a\r\nexpect: miracles\r\n\r\n" => 417,
      "GET /\0 HTTP/1.1\r\nhost: a\r\n\r\n" => 400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" => 400,
      "GET /#fragment HTTP/1.1\r\nhost: a\r\n\r\n" => 400, "PRI * HTTP/2.0\r\nhost: a\r\n\r\n" => 505
    }.then do |cases|
      serve(hello) do |served|
        other = connect(served)
        other.get
        cases.each do |bytes, status|
          client = connect(served)
          client.write(bytes)
          response = client.response
          assert_equal status, response.status, bytes.inspect if status
          assert_operator response.status, :>=, 400
          assert_equal %w[close text/plain], [response["connection"], response["content-type"]]
          assert_match(/\A[^\n]+\n\z/, response.body, "one line that says what was wrong")
          assert client.ended?, bytes.inspect
          assert_equal "hello", other.get.body
        end
        assert_equal cases.size, served.stats[:malformed]
      end
    end
  end

  define_method(:test_a_malformed_request_after_good_ones_is_refused_after_their_responses) do
    serve(echo) do |served|
      client = connect(served)
      client.write("GET /1 HTTP/1.1\r\nhost: a\r\n\r\nGET /2 HTTP/1.1\r\nhost: a\r\n\r\nrubbish\r\n\r\nGET /3 HTTP/1.1\r\nhost: a\r\n\r\n")
      assert_equal [200, 200, 400], Array.new(3) { client.response.status }
      assert client.ended?
      assert_equal 2, served.stats[:requests]
    end
  end

  define_method(:test_malformed_chunks_end_the_connection_after_a_400) do
    ["x\r\nabc\r\n0\r\n\r\n", "+3\r\nabc\r\n0\r\n\r\n", "0x3\r\nabc\r\n0\r\n\r\n", "3\r\nabcX0\r\n\r\n", "3\nabc\n0\n\n", "-1\r\n", "3 ;\n",
     "ffffffffffffffffffff\r\n", "1;#{"e" * 5000}\r\na\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\n sum: 5\r\n\r\n"].then do |bodies|
      serve(echo) do |served|
        bodies.each do |body|
          client = connect(served)
          client.request("POST / HTTP/1.1", body, transfer_encoding: "chunked")
          response = client.response
          assert_includes [400, 431], response.status, body
          assert_equal "close", response["connection"]
          assert client.ended?, body
        end
      end
    end
  end

  define_method(:test_trailers_can_be_read_after_the_body) do
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

  define_method(:test_only_chunked_requests_have_trailers) do
    serve(->(env) { [200, {}, [env.key?("gyre.trailers").to_s]] }) do |served|
      assert_equal "false", get(served, "POST / HTTP/1.1", "a", content_length: 1).body
    end
  end

  define_method(:test_a_client_that_closes_its_half_still_gets_the_response) do
    serve(echo) do |served|
      client = connect(served)
      client.request("POST /a HTTP/1.1", "abc", content_length: 3)
      client.socket.shutdown(:WR)
      assert_equal "POST /a  abc", client.response.body
      assert client.ended?
    end
  end

  define_method(:test_curl_agrees) do
    curl = need_program("curl")
    serve(echo) do |served|
      url = "http://127.0.0.1:#{served.port}"
      curl = [{ "LD_PRELOAD" => nil }, curl, "-sS", "--max-time", "20"] # a sanitizer that this run is under is not for curl
      run = ->(*arguments, stdin: "") { run_program(*curl, *arguments, stdin: stdin) }
      assert_equal "GET /a b=c ", run.call("#{url}/a?b=c").out
      assert_equal "POST /a  x=y", run.call("-d", "x=y", "#{url}/a").out
      assert_equal "PUT /a  #{"z" * 3000}", run.call("-T", "-", "-H", "expect: 100-continue", "#{url}/a", stdin: "z" * 3000).out
      head = run.call("-I", "#{url}/a").out
      assert_match(/\AHTTP\/1.1 200 OK\r\n/, head)
      assert_equal "GET /1  GET /2  ", run.call("#{url}/1", "#{url}/2").out
      assert_equal "GET /old  ", run.call("--http1.0", "#{url}/old").out
    end
  end
end

GyreTest::Engines.test_case("HTTP1MessagesContract", backends: GyreTest::Engines::NATIVE, &cases)
GyreTest::H2Contract.test_case("HTTP2MessagesContract", :messages, &cases)
