# frozen_string_literal: true

# Messages as only HTTP/1 carries them (RFC 9112): versions, pipelining, keep-alive, chunks, refused
# heads. What HTTP/2 has, too, is in test/contracts.

require "test_helper"
require "tmpdir"
require "support/engines"
require "http/serving"

module HTTP1Messages
  include GyreTest::HTTPServing

  HELLO = ->(_env) { [200, { "content-type" => "text/plain" }, ["hello"]] }

  # Responses with what arrived.
  ECHO = lambda do |env|
    [200, {}, ["#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]} #{env["QUERY_STRING"]} #{env["rack.input"].read}"]]
  end

  def sent_in_pieces(client, bytes, *cuts)
    [0, *cuts, bytes.bytesize].each_cons(2) do |from, to|
      client.write(bytes.byteslice(from, to - from))
      Thread.pass
    end
  end

  def test_pipelined_requests_get_their_responses_in_order
    serve(ECHO) do |served|
      client = connect(served)
      client.write((1..50).map { |number| "GET /#{number} HTTP/1.1\r\nhost: a\r\n\r\n" }.join)
      assert_equal((1..50).map { |number| "GET /#{number}  " }, Array.new(50) { client.response.body })
    end
  end

  # Of a proxy's connection, the next request is another user's.
  def test_pipelined_requests_begin_without_the_state_of_an_earlier_one
    app = lambda do |_|
      fiber = Fiber.current
      before = [Thread.current[:user], fiber.instance_variable_get(:@user), Fiber.respond_to?(:[]) ? Fiber[:user] : nil]
      fiber.instance_variable_set(:@user, Thread.current[:user] = "ann")
      Fiber[:user] = "ann" if Fiber.respond_to?(:[])
      [200, {}, [before.compact.inspect]]
    end
    serve(app) do |served|
      client = connect(served)
      client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 5)
      assert_equal ["[]"], Array.new(5) { client.response.body }.uniq
    end
  end

  def test_pipelined_requests_with_bodies_of_both_kinds_keep_their_borders
    serve(ECHO) do |served|
      client = connect(served)
      client.write("POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabcPOST /b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n" \
                   "2\r\nde\r\n1;x=y\r\nf\r\n0\r\n\r\nGET /c HTTP/1.1\r\nhost: a\r\n\r\n")
      assert_equal ["POST /a  abc", "POST /b  def", "GET /c  "], Array.new(3) { client.response.body }
    end
  end

  def test_requests_may_be_split_anywhere
    bytes = "POST /x?y=z HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabcPOST /b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n" \
            "2\r\nde\r\n0\r\nt: 1\r\n\r\nGET /c HTTP/1.1\r\nhost: a\r\n\r\n"
    serve(ECHO) do |served|
      client = connect(served)
      (1...bytes.bytesize).step(GyreTest::LifecycleChecks::STRESS ? 15 : 1) do |cut|
        sent_in_pieces(client, bytes, cut)
        assert_equal ["POST /x y=z abc", "POST /b  de", "GET /c  "], Array.new(3) { client.response.body }, "cut at #{cut}"
      end
      sent_in_pieces(client, bytes, *(1...bytes.bytesize))
      assert_equal ["POST /x y=z abc", "POST /b  de", "GET /c  "], Array.new(3) { client.response.body }, "byte by byte"
    end
  end

  def test_one_empty_line_before_a_request_is_skipped
    serve(ECHO) { |served| assert_equal "GET /a  ", connect(served).write("\r\n").get("GET /a HTTP/1.1").body }
  end

  def test_connection_close_is_honoured_and_said
    serve(HELLO) do |served|
      client = connect(served)
      response = client.get(connection: "close")
      assert_equal %w[close hello], [response["connection"], response.body]
      assert client.ended?
    end
  end

  def test_an_app_may_ask_for_the_end_of_the_connection
    serve(->(_env) { [200, { "connection" => "close" }, ["bye"]] }) do |served|
      client = connect(served)
      response = client.get
      assert_equal ["close", 1, "bye"], [response["connection"], response.count("connection"), response.body]
      assert client.ended?
    end
  end

  def test_http_1_0_closes_after_the_response
    serve(HELLO) do |served|
      client = connect(served)
      client.write("GET / HTTP/1.0\r\n\r\n")
      response = client.response
      assert_equal %w[close hello], [response["connection"], response.body]
      assert client.ended?
    end
  end

  def test_http_1_0_with_keep_alive_goes_on_and_reports_it
    serve(ECHO) do |served|
      client = connect(served)
      2.times do |number|
        client.write("GET /#{number} HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
        response = client.response
        assert_equal ["keep-alive", "GET /#{number}  "], [response["connection"], response.body]
      end
    end
  end

  def test_http_1_0_gets_a_streamed_body_without_chunks_up_to_the_end
    serve(->(_env) { [200, {}, %w[a b c].each] }) do |served|
      client = connect(served)
      client.write("GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
      response = client.response
      assert_equal ["close", nil, nil, "abc"], [response["connection"], response["transfer-encoding"], response["content-length"], response.body]
    end
  end

  def test_targets_of_each_form
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

  def test_a_1_0_request_without_host_has_the_sockets_own_name
    serve(->(env) { [200, {}, [env.values_at("SERVER_NAME", "SERVER_PORT", "HTTP_HOST", "SERVER_PROTOCOL").inspect]] }) do |served|
      client = connect(served).write("GET / HTTP/1.0\r\n\r\n")
      assert_equal ["127.0.0.1", served.port.to_s, nil, "HTTP/1.0"].inspect, client.response.body
    end
  end

  def test_a_field_name_with_an_underscore_is_left_out
    serve(->(env) { [200, {}, [env["HTTP_X_FORWARDED_FOR"].inspect]] }) do |served|
      client = connect(served)
      client.write("GET / HTTP/1.1\r\nhost: a\r\nX_Forwarded_For: evil\r\nX-Forwarded_For: evil\r\n\r\n")
      assert_equal "nil", client.response.body
      client.write("GET / HTTP/1.1\r\nhost: a\r\nX-Forwarded-For: good\r\nX-Forwarded_For: evil\r\n\r\n")
      assert_equal '"good"', client.response.body
    end
  end

  def test_a_unix_socket_serves_too
    Dir.mktmpdir do |folder|
      app = ->(env) { [200, {}, [env.values_at("REMOTE_ADDR", "SERVER_NAME", "SERVER_PORT").inspect]] }
      serve(app, unix: File.join(folder, "s")) do |served|
        assert_equal ["", "gyre.test", "80"].inspect, get(served).body
        assert_equal ["", "localhost", "80"].inspect, connect(served).write("GET / HTTP/1.0\r\n\r\n").response.body
      end
    end
  end

  def test_an_app_may_refuse_before_the_body_is_sent
    serve(->(_env) { [413, {}, ["too much"]] }) do |served|
      client = connect(served)
      client.request("POST / HTTP/1.1", content_length: 5_000_000, expect: "100-continue")
      response = client.response(interim: true)
      assert_equal [413, "close", "too much"], [response.status, response["connection"], response.body]
      assert client.ended?
    end
  end

  def test_no_continue_is_sent_when_the_body_has_come_already
    serve(ECHO) do |served|
      client = connect(served)
      response = client.request("POST / HTTP/1.1", "hello", content_length: 5, expect: "100-continue").response(interim: true)
      assert_equal [200, "POST /  hello", nil], [response.status, response.body, response["connection"]]
    end
  end

  def test_a_large_body_that_the_app_left_ends_the_connection_and_the_client_sees_the_response
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

  def test_an_endless_chunked_body_that_the_app_left_ends_the_connection
    serve(->(_env) { [200, {}, ["no, thanks"]] }, limits: { unread_body_bytes_limit: 1000 }) do |served|
      client = connect(served)
      client.request("POST /a HTTP/1.1", "800\r\n#{"x" * 2048}\r\n", transfer_encoding: "chunked")
      assert_equal "no, thanks", client.response.body
      assert client.ended?
    end
  end

  def test_malformed_requests_are_refused_and_end_their_connection_only
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
      serve(HELLO) do |served|
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

  def test_a_malformed_request_after_good_ones_is_refused_after_their_responses
    serve(ECHO) do |served|
      client = connect(served)
      client.write("GET /1 HTTP/1.1\r\nhost: a\r\n\r\nGET /2 HTTP/1.1\r\nhost: a\r\n\r\nrubbish\r\n\r\nGET /3 HTTP/1.1\r\nhost: a\r\n\r\n")
      assert_equal [200, 200, 400], Array.new(3) { client.response.status }
      assert client.ended?
      assert_equal 2, served.stats[:requests]
    end
  end

  def test_malformed_chunks_end_the_connection_after_a_400
    ["x\r\nabc\r\n0\r\n\r\n", "+3\r\nabc\r\n0\r\n\r\n", "0x3\r\nabc\r\n0\r\n\r\n", "3\r\nabcX0\r\n\r\n", "3\nabc\n0\n\n", "-1\r\n", "3 ;\n",
     "ffffffffffffffffffff\r\n", "1;#{"e" * 5000}\r\na\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\n sum: 5\r\n\r\n"].then do |bodies|
      serve(ECHO) do |served|
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

  def test_only_chunked_requests_have_trailers
    serve(->(env) { [200, {}, [env.key?("gyre.trailers").to_s]] }) do |served|
      assert_equal "false", get(served, "POST / HTTP/1.1", "a", content_length: 1).body
    end
  end

  def test_curl_agrees
    curl = need_program("curl")
    serve(ECHO) do |served|
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

  def test_the_access_log_has_refused_heads_once_each_with_what_is_known_of_them
    heads = {
      "nonsense\r\n\r\n" => [nil, nil, nil, 400], "GET /#{"a" * 80} HTTP/1.1\r\n\r\n" => ["GET", nil, nil, 414],
      "#{"A" * 65} / HTTP/1.1\r\n\r\n" => [nil, nil, nil, 501], "GET /v HTTP/2.0\r\n\r\n" => ["GET", "/v", nil, 505],
      "GET /h HTTP/1.1\r\n\r\n" => ["GET", "/h", "HTTP/1.1", 400],
      "GET /f?q HTTP/1.0\r\nx: #{"y" * 300}\r\n\r\n" => ["GET", "/f?q", "HTTP/1.0", 431],
      "PUT /b HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n" => ["PUT", "/b", "HTTP/1.1", 413],
      "PUT /t HTTP/1.1\r\n" => ["PUT", "/t", "HTTP/1.1", 408], "" => [nil, nil, nil, 408]
    }
    limits = { request_line_bytes_limit: 80, header_bytes_limit: 200, body_bytes_limit: 8, head_timeout_s: 0.5, first_byte_timeout_s: 0.5 }
    serve(->(_env) { [200, {}, []] }, limits: limits, log_accesses: true) do |served|
      responses = heads.keys.map { |head| connect(served).write(head).response }
      eventually { served.accesses.size == heads.size }
      known = served.accesses.map { |env, status| [*env.values_at("REQUEST_METHOD", "REQUEST_URI", "SERVER_PROTOCOL"), status] }
      assert_equal heads.values, known
      assert_equal responses.map { |response| [response.status, response.body.bytesize] }, served.accesses.map { |_, status, bytes| [status, bytes] }
      assert_equal [["127.0.0.1", true]], served.accesses.map { |env, *, seconds| [env["REMOTE_ADDR"], seconds.between?(0, 60)] }.uniq
    end
  end

  def test_the_access_log_has_a_refused_head_after_other_requests
    serve(->(_env) { [200, {}, []] }, log_accesses: true) do |served|
      client = connect(served).request("HEAD /a HTTP/1.1").write("GET /b HTTP/3.0\r\n\r\n")
      assert_equal [200, 505], [client.response(head_only: true).status, client.response.status]
      eventually { served.accesses.size == 2 }
      assert_equal [["/a", 200, 0], ["/b", 505, 39]],
                   served.accesses.map { |env, status, bytes| [env["REQUEST_URI"], status, bytes] }
    end
  end

  # Behind the head the kernel takes 64 pieces at a time, each of which is a segment on its way.
  def test_a_body_of_many_small_parts_leaves_in_few_calls
    skip "the client's kernel does not count segments" unless RbConfig::CONFIG["host_os"].include?("linux")
    serve(->(_env) { [200, {}, Array.new(600) { |number| number.to_s.rjust(100) }] }) do |served|
      client = connect(served)
      assert_equal (0...600).map { |number| number.to_s.rjust(100) }.join, client.get.body
      data_segments = client.socket.getsockopt(:TCP, :INFO).data.unpack1("@152L")
      assert_operator data_segments, :<, 60
    end
  end

  def test_a_refused_head_request_gets_no_body
    serve(->(_env) { [200, {}, []] }, log_accesses: true) do |served|
      client = connect(served).write("HEAD / HTTP/1.1\r\n\r\n")
      assert_equal 400, client.response(head_only: true).status
      assert_predicate client, :ended?
      eventually { served.accesses.map { |_, status, bytes| [status, bytes] } == [[400, 0]] }
    end
  end
end

GyreTest::Engines.test_case("HTTP1MessagesTest", backends: GyreTest::Engines::NATIVE) { include HTTP1Messages }
