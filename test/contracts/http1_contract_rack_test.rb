# frozen_string_literal: true

# What the HTTP/1 server owes to Rack apps: each kind of response of the Rack 3.1 SPEC, and what the
# app is given. Rack::Lint stands around each kind once. Each case runs on each native
# backend, over plain sockets and over TLS.

require "test_helper"
require "rack"
require "rack/lint"
require "tempfile"
require "support/engines"
require "http/serving"
require "http/h2/contract"

cases = proc do
  include GyreTest::HTTPServing

  # A body that counts how often it is closed.
  counting_body = Class.new do
    attr_reader :closed

    def initialize(*parts, &before)
      @parts = parts
      @before = before
      @closed = 0
    end

    def each
      @parts.each do |part|
        @before&.call(part)
        yield part
      end
    end

    def close
      @closed += 1
    end
  end

  lint = ->(app) { Rack::Lint.new(app) }
  plain = { "content-type" => "text/plain" }.freeze

  # --- bodies ---

  define_method(:test_lint_finds_nothing_with_any_kind_of_response) do
    file = Tempfile.new("gyre")
    file.write("from a file")
    file.close
    with_path = Class.new do
      define_method(:each) { |&block| block.call("from a file") }
      define_method(:to_path) { file.path }
    end
    app = lint.call(lambda do |env|
      headers = plain.dup
      case env["PATH_INFO"]
      when "/array"  then [200, headers, ["hello"]]
      when "/each"   then [200, headers, %w[a b].each]
      when "/length" then [200, headers.merge("content-length" => "2"), %w[a b].each]
      when "/call"   then [200, headers, ->(stream) { stream.write("streamed").then { stream.close } }]
      when "/path"   then [200, headers, with_path.new]
      when "/read"   then [200, headers, [env["rack.input"].read]]
      when "/gets"   then [200, headers, [env["rack.input"].gets.to_s]]
      when "/lines"  then [200, headers, [].tap { |lines| env["rack.input"].each { |line| lines << line } }]
      when "/part"   then [200, headers, [env["rack.input"].read(2), env["rack.input"].read(1, +"")]]
      when "/many"   then [200, headers.merge("set-cookie" => %w[a=b c=d]), ["cookies"]]
      when "/empty"  then [204, {}, []]
      when "/same"   then [304, {}, []]
      when "/hijack" then [200, headers.merge("rack.hijack" => ->(stream) { stream.write("mine").then { stream.close } }), []]
      when "/hints"
        env["rack.early_hints"].call("link" => "</style.css>; rel=preload")
        [200, headers, ["hinted"]]
      when "/finish"
        env["rack.response_finished"] << ->(*) {}
        [200, headers, ["finished"]]
      else [404, headers, ["not here: #{env["PATH_INFO"]}"]]
      end
    end)
    serve(app) do |served|
      client = connect(served)
      seen = %w[array each length call path many hints finish].map { |path| client.get("GET /#{path} HTTP/1.1").body }
      assert_equal ["hello", "ab", "ab", "streamed", "from a file", "cookies", "hinted", "finished"], seen
      seen = %w[read gets lines part].map { |path| client.get("POST /#{path} HTTP/1.1", "a\nb\nc", content_length: 5).body }
      assert_equal ["a\nb\nc", "a\n", "a\nb\nc", "a\nb"], seen
      seen = %w[read gets lines].map { |path| client.get("GET /#{path} HTTP/1.1").body }
      assert_equal ["", "", ""], seen
      assert_equal [204, 304], %w[empty same].map { |path| client.get("GET /#{path} HTTP/1.1").status }
      assert_equal [200] * 5, %w[array each length path read].map { |path| client.get("HEAD /#{path} HTTP/1.1").status }
      assert_equal [404, 404], ["OPTIONS * HTTP/1.1", "GET #{"http://gyre.test" unless http2?}/abs HTTP/1.1"].map { |line| client.get(line).status }
      assert_equal "mine", client.get("GET /hijack HTTP/1.1").body
      next if http2?

      client = connect(served)
      client.write("GET /old HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
      assert_equal 404, client.response.status
      client = connect(served)
      client.write("CONNECT gyre.test:80 HTTP/1.1\r\nhost: gyre.test:80\r\n\r\n")
      assert_equal 404, client.response.status
    end
  ensure
    file&.unlink
  end

  define_method(:test_an_array_leaves_with_its_head_whole_and_its_length) do
    serve(->(_env) { [200, {}, ["", "ä", "b" * 100_000, "c"]] }) do |served|
      2.times do
        response = get(served)
        assert_equal "100003", response["content-length"]
        assert_equal "\xC3\xA4#{"b" * 100_000}c".b, response.body
      end
    end
  end

  define_method(:test_an_each_body_is_chunked_and_each_part_leaves_at_once) do
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

  define_method(:test_an_array_of_more_parts_than_one_call_sends_comes_whole) do
    parts = Array.new(200) { |number| number.to_s * 1000 }
    serve(->(_env) { [200, plain.dup, parts] }) do |served|
      client = connect(served)
      2.times { assert_equal parts.join, client.get.body }
    end
  end

  define_method(:test_the_head_of_a_streamed_response_does_not_wait_for_its_body) do
    go = Thread::Queue.new
    serve(->(_env) { [200, {}, Enumerator.new { |parts| parts << go.pop }] }) do |served|
      client = connect(served)
      client.request
      client.take_through("\r\n\r\n")
      go << "late"
      assert_equal "late", client.chunk
    end
  end

  define_method(:test_a_body_that_becomes_an_array_is_sent_as_one) do
    body = Class.new do
      define_method(:to_ary) { %w[a b] }
      define_method(:each) { |&_block| raise "each was called" }
    end.new
    serve(->(_env) { [200, {}, body] }) do |served|
      assert_equal %w[2 ab], get(served).then { |response| [response["content-length"], response.body] }
    end
  end

  define_method(:test_a_streaming_body_reads_and_writes_at_the_same_time) do
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

  define_method(:test_a_stream_that_the_app_leaves_open_is_ended) do
    serve(->(_env) { [200, {}, ->(stream) { stream.write("that is all") }] }) do |served|
      client = connect(served)
      2.times { assert_equal "that is all", client.get.body }
    end
  end

  define_method(:test_a_stream_closed_early_ends_the_response_at_once) do
    go = Thread::Queue.new
    app = lambda do |_env|
      [200, {}, lambda do |stream|
        stream.write("short")
        stream.close
        go.pop
      end]
    end
    serve(app) do |served|
      assert_equal "short", connect(served).get.body
      go << true
    end
  end

  define_method(:test_expect_continue_is_met_for_a_streaming_body) do
    serve(->(_env) { [200, {}, ->(stream) { stream.write(stream.read) }] }) do |served|
      client = connect(served)
      client.request("POST / HTTP/1.1", content_length: 3, expect: "100-continue")
      assert_equal 100, client.response(interim: true).status
      client.write("abc")
      assert_equal "abc", client.response.body
    end
  end

  define_method(:test_files_are_sent_whole) do
    Dir.mktmpdir do |folder|
      contents = { "none" => "", "small" => "small", "big" => Random.new(1).bytes(3_000_001) }
      contents.each { |name, content| File.binwrite(File.join(folder, name), content) }
      app = lambda do |env|
        path = File.join(folder, env["PATH_INFO"])
        body = Object.new
        body.define_singleton_method(:to_path) { path }
        body.define_singleton_method(:each) { |&block| block.call(File.binread(path)) }
        [200, env["QUERY_STRING"].empty? ? {} : { "content-length" => env["QUERY_STRING"] }, body]
      end
      serve(app) do |served|
        client = connect(served)
        contents.each do |name, content|
          2.times do
            response = client.get("GET /#{name} HTTP/1.1")
            assert_equal [content.bytesize.to_s, content], [response["content-length"], response.body]
          end
          assert_equal content, client.get("GET /#{name}?#{content.bytesize} HTTP/1.1").body
        end
        next if http2?

        client.write("GET /big HTTP/1.0\r\n\r\n")
        assert_equal contents["big"], client.response.body
      end
    end
  end

  define_method(:test_a_file_that_is_not_there_or_no_file_falls_back_to_each) do
    paths = { "/gone" => "/does/not/exist", "/folder" => "/", "/other" => __FILE__ }
    app = lambda do |env|
      body = Object.new
      body.define_singleton_method(:to_path) { paths[env["PATH_INFO"]] }
      body.define_singleton_method(:each) { |&block| block.call("each") }
      [200, { "content-length" => "4" }, body]
    end
    serve(app) do |served|
      client = connect(served)
      assert_equal %w[each each each], paths.keys.map { |path| client.get("GET #{path} HTTP/1.1").body }
    end
  end

  define_method(:test_a_file_that_shrinks_while_it_is_sent_cuts_the_response) do
    file = Tempfile.new("gyre")
    file.truncate(100_000_000) # without blocks, so it takes no room
    file.close
    body = Object.new
    body.define_singleton_method(:to_path) { file.path }
    body.define_singleton_method(:each) { |&_block| raise "each was called" }
    serve(->(_env) { [200, {}, body] }) do |served|
      client = connect(served)
      client.request
      assert_match(/content-length: 100000000/, client.take_through("\r\n\r\n"))
      File.truncate(file.path, 1000)
      assert_operator client.rest.bytesize, :<, 100_000_000
      expect_errors(served, /LengthError/)
      assert_equal 200, get(served).status
    end
  ensure
    file&.unlink
  end

  # --- headers ---

  define_method(:test_arrays_of_header_values_become_lines) do
    serve(->(_env) { [200, { "set-cookie" => ["a=b", "c=d"], "x-none" => [] }, ["x"].each] }) do |served|
      response = get(served)
      assert_equal [2, "a=b, c=d", 0], [response.count("set-cookie"), response["set-cookie"], response.count("x-none")]
    end
    serve(->(_env) { [200, { "set-cookie" => ["a=b", "c=d"], "x-none" => [] }, ["x"]] }) do |served|
      response = get(served)
      assert_equal [2, "a=b, c=d", 0], [response.count("set-cookie"), response["set-cookie"], response.count("x-none")]
    end
  end

  define_method(:test_headers_that_would_split_the_response_are_refused) do
    bad = { "value" => "a\r\nx: y", "lf" => "a\nb", "cr" => "a\rb", "nul" => "a\0b" }
    app = lambda do |env|
      kind = env["PATH_INFO"].delete_prefix("/")
      headers = bad.key?(kind) ? { "x" => bad[kind] } : { kind.tr("_", " ") => "v" }
      headers = { "x" => ["fine", bad[kind]] } if env["QUERY_STRING"] == "array"
      [200, headers, env["QUERY_STRING"] == "each" ? ["x"].each : ["x"]]
    end
    serve(app) do |served|
      client = connect(served)
      paths = bad.keys.flat_map { |kind| ["/#{kind}", "/#{kind}?array", "/#{kind}?each"] } + %w[/with_space /with:colon /with(paren]
      paths.each do |path|
        response = client.get("GET #{path} HTTP/1.1")
        assert_equal [500, nil, nil], [response.status, response["x"], response["fine"]], path
        expect_errors(served, /ArgumentError/)
      end
    end
  end

  define_method(:test_what_is_meant_for_the_server_is_not_sent) do
    serve(->(_env) { [200, { "rack.anything" => "x", "x-rack.ok" => "y" }, ["a"]] }) do |served|
      response = get(served)
      assert_equal ["a", nil, "y"], [response.body, response["rack.anything"], response["x-rack.ok"]]
    end
  end

  define_method(:test_the_framing_is_the_servers_and_connection_too) do
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

  define_method(:test_chunks_of_the_apps_own_are_passed_on) do
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

  define_method(:test_a_framing_of_the_apps_own_that_cannot_be_is_refused_aloud) do
    own = { "transfer-encoding" => "chunked" }
    responses = {
      "/array" => [200, own, ["ab"]], "/each" => [200, own, ["hello"].each], "/nothing" => [200, own, [].each],
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
      assert_equal 500, client.response.status
      assert_match(/HTTP.1\.0/, served.errors.shift.to_s)
    end
  end

  define_method(:test_values_in_the_environment_are_the_requests_own_or_frozen) do
    envs = []
    app = lambda do |env|
      envs << env.select { |name, value| value.is_a?(String) && name.match?(/\A[A-Z]/) }
      envs.last.each_value { |value| value << "changed" unless value.frozen? }
      [200, {}, []]
    end
    serve(app) do |served|
      client = connect(served)
      20.times { client.get("GET /a HTTP/1.1", cookie: "a=b") } # until what is usual has been learnt
      20.times { client.get("POST /a?b HTTP/1.1", "body", content_length: 4) }
      client.get("PURGE /a?b HTTP/1.1", host: "other.test:8080")
    end
    assert_equal 41, envs.size
    shared = %w[REQUEST_METHOD SCRIPT_NAME SERVER_NAME SERVER_PORT SERVER_PROTOCOL REMOTE_ADDR]
    envs.each do |env|
      frozen, own = env.except("HTTPS").partition { |_name, value| value.frozen? }.map(&:to_h)
      assert_equal env["QUERY_STRING"].empty? ? [*shared, "QUERY_STRING"].sort : shared.sort, frozen.keys.sort
      assert_empty own.values.grep_v(/\A(?:(?!changed).)*changed\z/), "seen by a later request"
    end
    assert_equal ["PURGE", "", "other.test", "8080", http2? ? "HTTP/2.0" : "HTTP/1.1", "127.0.0.1"], envs.last.values_at(*shared)
    assert_equal %w[GET gyre.test], envs.first.values_at("REQUEST_METHOD", "SERVER_NAME")
  end

  define_method(:test_a_body_without_a_path_goes_by_each) do
    body = Struct.new(:to_path) { define_method(:each) { |&block| block.call("by each") } }
    serve(->(_env) { [200, {}, body.new(nil)] }) do |served|
      assert_equal "by each", connect(served).get.body
    end
    app = lambda do |_env|
      reader, writer = IO.pipe
      writer << "from a pipe"
      writer.close
      [200, {}, reader]
    end
    serve(app) { |served| assert_equal "from a pipe", connect(served).get.body }
  end

  define_method(:test_trailers_that_may_only_be_headers_are_left_out) do
    app = lambda do |env|
      env["rack.input"].read
      [200, {}, [env["gyre.trailers"].call.inspect]]
    end
    serve(app) do |served|
      client = connect(served)
      body = "1\r\na\r\n0\r\nHost: b\r\nX-Sum: c\r\nContent-Type: d\r\n\r\n"
      assert_equal({ "x-sum" => "c" }.inspect, client.get("POST / HTTP/1.1", body, transfer_encoding: ", chunked,").body)
    end
  end

  define_method(:test_a_2xx_to_connect_has_no_framing_whatever_the_body_is) do
    bodies = { "a.test:1" => [], "a.test:2" => ["raw"], "a.test:3" => ["raw"].each }
    serve(->(env) { [200, { "content-length" => "3" }, bodies[env["REQUEST_URI"]]] }) do |served|
      bodies.each_key do |target|
        client = connect(served)
        client.write("CONNECT #{target} HTTP/1.1\r\nhost: #{target}\r\n\r\n")
        refute_match(/content-length|transfer-encoding/, client.take_through("\r\n\r\n"))
        assert_equal target.end_with?("1") ? "" : "raw", client.rest
      end
    end
  end

  define_method(:test_odd_but_harmless_responses_are_understood) do
    responses = {
      "/status" => ["201", {}, ["a"]], "/value" => [200, { "x-number" => 5, "x-nil" => nil, "x-symbol" => :y }, ["a"]],
      "/symbol" => [200, { "x-key": "v" }, ["a"]], "/frozen" => [200, {}.freeze, ["a"].freeze].freeze,
      "/upper" => [200, { "Content-Length" => "1" }, ["a"]],
      "/strange" => [299, {}, ["a"]], "/pairs" => [200, [["x-pair", "1"]], ["a"]], "/six" => [666, {}, ["a"]]
    }
    serve(->(env) { responses.fetch(env["PATH_INFO"]) }) do |served|
      client = connect(served)
      seen = responses.keys.to_h { |path| [path, client.get("GET #{path} HTTP/1.1")] }
      assert_equal ["a"], seen.values.map(&:body).uniq
      assert_equal [201, 299, 666], %w[/status /strange /six].map { |path| seen[path].status }
      assert_equal ["5", nil, "y"], %w[x-number x-nil x-symbol].map { |name| seen["/value"][name] }
      assert_equal %w[v 1], [seen["/symbol"]["x-key"], seen["/pairs"]["x-pair"]]
      assert_equal 1, seen["/upper"].count("content-length")
    end
  end

  define_method(:test_responses_that_make_no_sense_are_a_500) do
    responses = { "/nil" => nil, "/empty" => [], "/headers" => [200, nil, []], "/body" => [200, {}, 5], "/part" => [200, {}, [:symbol]],
                "/status" => [100, {}, []], "/switch" => [101, {}, []], "/length" => [200, { "content-length" => "many" }, ["a"]] }
    serve(->(env) { responses.fetch(env["PATH_INFO"]) }) do |served|
      client = connect(served)
      responses.each_key do |path|
        response = client.get("GET #{path} HTTP/1.1")
        assert_equal [500, "Internal Server Error\n"], [response.status, response.body], path
        expect_errors(served, /GET #{path}: unhandled in the app/)
      end
    end
  end

  # --- hints, hijack, upgrades ---

  define_method(:test_early_hints_come_before_the_response) do
    app = lambda do |env|
      env["rack.early_hints"].call("link" => ["</a>; rel=preload", "</b>; rel=preload"])
      env["rack.early_hints"].call({ "link" => "</c>; rel=preload" })
      [200, {}, ["done"]]
    end
    serve(app) do |served|
      client = connect(served)
      client.request
      first = client.response(interim: true)
      assert_equal [103, 2, nil], [first.status, first.count("link"), first["content-length"]]
      assert_equal [103, "</c>; rel=preload"], client.response(interim: true).then { |response| [response.status, response["link"]] }
      assert_equal "done", client.response(interim: true).body
      next if http2?

      client.write("GET / HTTP/1.0\r\n\r\n")
      assert_equal 200, client.response(interim: true).status, "HTTP/1.0 knows no interim responses"
    end
  end

  define_method(:test_early_hints_that_would_split_the_response_are_refused) do
    app = lambda do |env|
      env["rack.early_hints"].call("link" => "a\r\n\r\nHTTP/1.1 200 OK")
      [200, {}, []]
    end
    serve(app) do |served|
      assert_equal 500, get(served).status
      expect_errors(served, /ArgumentError/)
    end
  end

  define_method(:test_a_full_hijack_gives_the_socket_to_the_app) do
    app = lambda do |env|
      io = env["rack.hijack"].call
      io.write("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nraw")
      io.close
      [-1, {}, []]
    end
    serve(app) do |served|
      client = connect(served)
      assert_equal "raw", client.get.body
      assert client.ended?
      eventually { served.stats.values_at(:connections, :running) == [0, 0] }
    end
  end

  define_method(:test_a_hijacked_socket_has_what_the_client_sent_ahead) do
    app = lambda do |env|
      io = env["rack.hijack"].call
      io.write("first #{io.readpartial(100)}")
      io.write(", then #{io.read(4)}")
      io.close
      [200, {}, ["ignored"]]
    end
    serve(app) do |served|
      client = connect(served)
      client.request("GET / HTTP/1.1", "ahead")
      assert_equal "first ahead", client.take(11)
      client.write("late")
      assert_equal ", then late", client.rest
    end
  end

  define_method(:test_a_hijacked_socket_outlives_the_request) do
    handed_over = Thread::Queue.new
    app = lambda do |env|
      handed_over << env["rack.hijack"].call
      [200, {}, []]
    end
    serve(app) do |served|
      client = connect(served)
      client.request
      io = handed_over.pop
      eventually { served.stats[:running].zero? }
      io.write("still here")
      io.close
      assert_equal "still here", client.rest
    end
  end

  define_method(:test_an_app_that_raises_after_a_hijack_is_reported) do
    app = lambda do |env|
      env["rack.hijack"].call.close
      raise "after the hijack"
    end
    serve(app) do |served|
      client = connect(served)
      client.request
      assert client.ended?
      expect_errors(served, /after the hijack/)
    end
  end

  define_method(:test_a_partial_hijack_gets_the_socket_after_the_head) do
    app = lambda do |env|
      headers = env["PATH_INFO"] == "/own" ? { "transfer-encoding" => "chunked" } : { "x" => "y" }
      [200, headers.merge("rack.hijack" => lambda { |io|
        io.write(env["PATH_INFO"] == "/own" ? "3\r\nraw\r\n0\r\n\r\n" : "raw")
        io.close
      }), ["ignored"]]
    end
    serve(app) do |served|
      response = connect(served).get
      assert_equal ["raw", "y", "close", nil], [response.body, response["x"], response["connection"], response["rack.hijack"]]
      response = connect(served).get("GET /own HTTP/1.1")
      assert_equal %w[raw chunked], [response.body, response["transfer-encoding"]]
      client = connect(served)
      assert_equal 200, client.get("HEAD / HTTP/1.1").status
      assert_equal 200, client.get("HEAD / HTTP/1.1").status
    end
  end

  define_method(:test_rack_protocol_upgrades_the_connection) do
    seen = nil
    app = lint.call(lambda do |env|
      seen = env["rack.protocol"]
      [200, { "rack.protocol" => "echo", "x" => "y" }, lambda do |stream|
        2.times { stream.write("echo #{stream.read(3)}") }
        stream.close
      end]
    end)
    serve(app) do |served|
      client = connect(served)
      client.request("GET / HTTP/1.1", "one", connection: "Upgrade", upgrade: "chess, echo")
      response = client.response
      assert_equal [101, "echo", "upgrade", "y"], [response.status, *%w[upgrade connection x].map { |name| response[name] }]
      assert_equal %w[chess echo], seen
      assert_equal "echo one", client.take(8)
      client.write("two")
      assert_equal "echo two", client.rest
    end
  end

  define_method(:test_a_rack_protocol_that_was_not_offered_is_a_500) do
    serve(->(_env) { [200, { "rack.protocol" => "echo" }, ->(stream) { stream.write("no") }] }) do |served|
      client = connect(served)
      assert_equal 500, client.get(connection: "upgrade", upgrade: "chess").status
      assert_equal 500, client.get.status
      expect_errors(served, /rack\.protocol is "echo"/, /rack\.protocol is "echo"/)
    end
  end

  define_method(:test_an_app_may_refuse_an_upgrade) do
    serve(->(_env) { [403, { "rack.protocol" => "echo" }, ["no"]] }) do |served|
      client = connect(served)
      2.times do
        response = client.get(connection: "upgrade", upgrade: "echo")
        assert_equal [403, "no", nil], [response.status, response.body, response["upgrade"]]
      end
    end
  end

  define_method(:test_connect_becomes_a_tunnel) do
    app = lambda do |env|
      [200, {}, lambda do |stream|
        stream.write("#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]}: #{stream.read(2)}")
        stream.close
      end]
    end
    serve(app) do |served|
      client = connect(served)
      client.write("CONNECT gyre.test:443 HTTP/1.1\r\nhost: gyre.test:443\r\n\r\n")
      head = client.take_through("\r\n\r\n")
      refute_match(/content-length|transfer-encoding/, head)
      client.write("hi")
      assert_equal "CONNECT gyre.test:443: hi", client.rest
    end
  end

  # --- the end of a request ---

  define_method(:test_a_body_is_closed_once_whatever_happens) do
    bodies = {
      "/each" => counting_body.new("a", "b"), "/head" => counting_body.new("a"),
      "/raise" => counting_body.new("a", "b") { |part| raise "in each" if part == "b" },
      "/type" => counting_body.new(:a), "/204" => counting_body.new("a"), "/header" => counting_body.new("a"),
      "/long" => counting_body.new("abc"),
      "/hijack" => counting_body.new("a"), "/array" => ["a"], "/path" => counting_body.new("a")
    }
    def (bodies["/array"]).close = @closed = closed + 1
    def (bodies["/array"]).closed = @closed.to_i
    def (bodies["/path"]).to_path = __FILE__
    app = lambda do |env|
      path = env["PATH_INFO"]
      env["rack.hijack"].call.close if path == "/hijack" && !http2?
      headers = { "/header" => { "x" => "\n" }, "/long" => { "content-length" => "1" } }.fetch(path, {})
      [path == "/204" ? 204 : 200, headers, bodies.fetch(path)]
    end
    serve(app) do |served|
      bodies.each_key do |path|
        client = connect(served)
        client.request("#{path == "/head" ? "HEAD" : "GET"} #{path} HTTP/1.1", connection: "close").rest
      end
      expect_errors(served, *[//] * 4)
      eventually { bodies.each_value.all? { |body| body.closed.positive? } && served.stats[:running].zero? }
      assert_equal [1], bodies.values.map(&:closed).uniq, bodies.transform_values(&:closed).inspect
    end
  end

  define_method(:test_a_body_whose_close_raises_spoils_nothing) do
    body = ["fine"]
    def body.close = raise("in close")
    serve(->(_env) { [200, {}, body] }) do |served|
      client = connect(served)
      2.times { assert_equal "fine", client.get.body }
      expect_errors(served, /the body's close.*in close/m, /in close/)
    end
  end

  define_method(:test_response_finished_is_called_in_reverse_order_with_what_the_app_said) do
    calls = Thread::Queue.new
    app = lambda do |env|
      3.times { |number| env["rack.response_finished"] << ->(*arguments) { calls << [number, *arguments] } }
      raise "trouble" if env["PATH_INFO"] == "/raise"

      [201, { "x" => "y" }, ["a"]]
    end
    serve(app) do |served|
      get(served)
      seen = Array.new(3) { calls.pop }
      assert_equal [2, 1, 0], seen.map(&:first)
      assert_equal [["/", 201, { "x" => "y" }, nil]], seen.map { |_, env, *rest| [env["PATH_INFO"], *rest] }.uniq
      get(served, "GET /raise HTTP/1.1")
      _, env, status, headers, error = calls.pop
      assert_equal ["/raise", nil, nil, "trouble"], [env["PATH_INFO"], status, headers, error.message]
      expect_errors(served, /trouble/)
    end
  end

  define_method(:test_response_finished_that_raises_keeps_no_other_from_running) do
    calls = Thread::Queue.new
    app = lambda do |env|
      env["rack.response_finished"] << ->(*) { calls << :first } << ->(*) { raise "in finished" }
      [200, {}, ["a"]]
    end
    serve(app) do |served|
      assert_equal "a", get(served).body
      assert_equal :first, calls.pop
      expect_errors(served, /rack\.response_finished.*in finished/m)
    end
  end

  define_method(:test_the_access_log_hears_of_each_request) do
    app = lambda do |env|
      case env["PATH_INFO"]
      when "/each"  then [200, {}, %w[abc de].each]
      when "/raise" then raise "trouble"
      when "/head"  then [200, {}, ["hello"]]
      else [404, {}, ["no"]]
      end
    end
    serve(app, log_accesses: true) do |served|
      client = connect(served)
      ["GET /a", "GET /each", "GET /raise", "HEAD /head"].each { |line| client.get("#{line} HTTP/1.1") }
      eventually { served.accesses.size == 4 }
      assert_equal [["/a", 404, 2], ["/each", 200, 5], ["/raise", 500, 22], ["/head", 200, 0]],
                   served.accesses.map { |env, status, bytes, _| [env["PATH_INFO"], status, bytes] }
      assert_equal [true], served.accesses.map { |*, seconds| seconds.between?(0, 60) }.uniq
      expect_errors(served, /trouble/)
    end
  end

  define_method(:test_the_access_log_has_refused_heads_once_each_with_what_is_known_of_them) do
    heads = {
      "nonsense\r\n\r\n" => [nil, nil, nil, 400], "GET /#{"a" * 80} HTTP/1.1\r\n\r\n" => ["GET", nil, nil, 414],
      "#{"A" * 65} / HTTP/1.1\r\n\r\n" => [nil, nil, nil, 501], "GET /v HTTP/2.0\r\n\r\n" => ["GET", "/v", nil, 505],
      "GET /h HTTP/1.1\r\n\r\n" => ["GET", "/h", "HTTP/1.1", 400],
      "GET /f?q HTTP/1.0\r\nx: #{"y" * 300}\r\n\r\n" => ["GET", "/f?q", "HTTP/1.0", 431],
      "PUT /b HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n" => ["PUT", "/b", "HTTP/1.1", 413],
      "PUT /t HTTP/1.1\r\n" => ["PUT", "/t", "HTTP/1.1", 408], "" => [nil, nil, nil, 408]
    }
    limits = { request_line_bytes_limit: 80, header_bytes_limit: 200, body_bytes_limit: 8, head_timeout_s: 0.05, first_byte_timeout_s: 0.05 }
    serve(->(_env) { [200, {}, []] }, limits: limits, log_accesses: true) do |served|
      responses = heads.keys.map { |head| connect(served).write(head).response }
      eventually { served.accesses.size == heads.size }
      known = served.accesses.map { |env, status| [*env.values_at("REQUEST_METHOD", "REQUEST_URI", "SERVER_PROTOCOL"), status] }
      assert_equal heads.values, known
      assert_equal responses.map { |response| [response.status, response.body.bytesize] }, served.accesses.map { |_, status, bytes| [status, bytes] }
      assert_equal [["127.0.0.1", true]], served.accesses.map { |env, *, seconds| [env["REMOTE_ADDR"], seconds.between?(0, 60)] }.uniq
    end
  end

  define_method(:test_the_access_log_has_a_refused_head_behind_other_requests) do
    serve(->(_env) { [200, {}, []] }, log_accesses: true) do |served|
      client = connect(served).request("HEAD /a HTTP/1.1").write("GET /b HTTP/3.0\r\n\r\n")
      assert_equal [200, 505], [client.response(head_only: true).status, client.response.status]
      eventually { served.accesses.size == 2 }
      assert_equal [["/a", 200, 0], ["/b", 505, 39]],
                   served.accesses.map { |env, status, bytes| [env["REQUEST_URI"], status, bytes] }
    end
  end

  define_method(:test_a_refused_head_request_gets_no_body) do
    serve(->(_env) { [200, {}, []] }, log_accesses: true) do |served|
      client = connect(served).write("HEAD / HTTP/1.1\r\n\r\n")
      assert_equal 400, client.response(head_only: true).status
      assert_predicate client, :ended?
      eventually { served.accesses.map { |_, status, bytes| [status, bytes] } == [[400, 0]] }
    end
  end

  define_method(:test_rack_errors_goes_where_the_server_says) do
    errors = StringIO.new
    serve(->(env) { env["rack.errors"].puts("oops").then { [200, {}, []] } }, errors: errors, scheme: "https") do |served|
      get(served)
      assert_equal "oops\n", errors.string
    end
  end

  define_method(:test_https_behind_a_tls_end_is_said_in_the_environment) do
    serve(->(env) { [200, {}, [env.values_at("rack.url_scheme", "HTTPS", "SERVER_PORT").inspect]] }, scheme: "https") do |served|
      assert_equal %w[https on 443].inspect, get(served).body
    end
  end
end

GyreTest::Engines.test_case("HTTP1RackContract", backends: GyreTest::Engines::NATIVE, &cases)
GyreTest::Engines.test_case("HTTP1RackOverTLSContract", backends: GyreTest::Engines::NATIVE) do
  class_exec(&cases)
  define_method(:tls?) { true }
end
GyreTest::H2Contract.test_case("HTTP2RackContract", :rack, &cases)
GyreTest::H2Contract.test_case("HTTP2RackOverTLSContract", :rack, tls: true, &cases)
