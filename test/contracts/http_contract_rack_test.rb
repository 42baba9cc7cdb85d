# frozen_string_literal: true

# What a server owes to Rack apps: each kind of response of the Rack 3.1 SPEC, and what the app is
# given. Rack::Lint stands around each kind once.

require "test_helper"
require "rack"
require "rack/lint"
require "tempfile"
require "http/contract"

module HTTPRackContract
  include GyreTest::HTTPServing

  # A body that counts how often it is closed.
  CountingBody = Class.new do
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

  PLAIN = { "content-type" => "text/plain" }.freeze

  # --- bodies ---

  def test_lint_finds_nothing_with_any_kind_of_response
    file = Tempfile.new("gyre")
    file.write("from a file")
    file.close
    with_path = Class.new do
      define_method(:each) { |&block| block.call("from a file") }
      define_method(:to_path) { file.path }
    end
    app = Rack::Lint.new(lambda do |env|
      headers = PLAIN.dup
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

  def test_an_array_leaves_with_its_head_whole_and_its_length
    serve(->(_env) { [200, {}, ["", "ä", "b" * 100_000, "c"]] }) do |served|
      2.times do
        response = get(served)
        assert_equal "100003", response["content-length"]
        assert_equal "\xC3\xA4#{"b" * 100_000}c".b, response.body
      end
    end
  end

  def test_an_array_of_more_parts_than_one_call_sends_comes_whole
    parts = Array.new(200) { |number| number.to_s * 1000 }
    serve(->(_env) { [200, PLAIN.dup, parts] }) do |served|
      client = connect(served)
      2.times { assert_equal parts.join, client.get.body }
    end
  end

  def test_the_head_of_a_streamed_response_does_not_wait_for_its_body
    go = Thread::Queue.new
    serve(->(_env) { [200, {}, Enumerator.new { |parts| parts << go.pop }] }) do |served|
      client = connect(served)
      client.request
      client.take_through("\r\n\r\n")
      go << "late"
      assert_equal "late", client.chunk
    end
  end

  def test_a_body_that_becomes_an_array_is_sent_as_one
    body = Class.new do
      define_method(:to_ary) { %w[a b] }
      define_method(:each) { |&_block| raise "each was called" }
    end.new
    serve(->(_env) { [200, {}, body] }) do |served|
      assert_equal %w[2 ab], get(served).then { |response| [response["content-length"], response.body] }
    end
  end

  def test_a_stream_that_the_app_leaves_open_is_ended
    serve(->(_env) { [200, {}, ->(stream) { stream.write("that is all") }] }) do |served|
      client = connect(served)
      2.times { assert_equal "that is all", client.get.body }
    end
  end

  def test_a_stream_closed_early_ends_the_response_at_once
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

  def test_expect_continue_is_met_for_a_streaming_body
    serve(->(_env) { [200, {}, ->(stream) { stream.write(stream.read) }] }) do |served|
      client = connect(served)
      client.request("POST / HTTP/1.1", content_length: 3, expect: "100-continue")
      assert_equal 100, client.response(interim: true).status
      client.write("abc")
      assert_equal "abc", client.response.body
    end
  end

  def test_files_are_sent_whole
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

  def test_a_file_that_is_not_there_or_no_file_falls_back_to_each
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

  def test_a_file_that_shrinks_while_it_is_sent_cuts_the_response
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

  def test_arrays_of_header_values_become_lines
    serve(->(_env) { [200, { "set-cookie" => ["a=b", "c=d"], "x-none" => [] }, ["x"].each] }) do |served|
      response = get(served)
      assert_equal [2, "a=b, c=d", 0], [response.count("set-cookie"), response["set-cookie"], response.count("x-none")]
    end
    serve(->(_env) { [200, { "set-cookie" => ["a=b", "c=d"], "x-none" => [] }, ["x"]] }) do |served|
      response = get(served)
      assert_equal [2, "a=b, c=d", 0], [response.count("set-cookie"), response["set-cookie"], response.count("x-none")]
    end
  end

  def test_headers_that_would_split_the_response_are_refused
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

  def test_what_is_meant_for_the_server_is_not_sent
    serve(->(_env) { [200, { "rack.anything" => "x", "x-rack.ok" => "y" }, ["a"]] }) do |served|
      response = get(served)
      assert_equal ["a", nil, "y"], [response.body, response["rack.anything"], response["x-rack.ok"]]
    end
  end

  def test_values_in_the_environment_are_the_requests_own_or_frozen
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

  def test_a_body_without_a_path_goes_by_each
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

  def test_trailers_that_may_only_be_headers_are_left_out
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

  def test_odd_but_harmless_responses_are_understood
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

  def test_responses_that_make_no_sense_are_a_500
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

  def test_early_hints_come_before_the_response
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

  def test_early_hints_that_would_split_the_response_are_refused
    app = lambda do |env|
      env["rack.early_hints"].call("link" => "a\r\n\r\nHTTP/1.1 200 OK")
      [200, {}, []]
    end
    serve(app) do |served|
      assert_equal 500, get(served).status
      expect_errors(served, /ArgumentError/)
    end
  end

  # --- the end of a request ---

  def test_a_body_is_closed_once_whatever_happens
    bodies = {
      "/each" => CountingBody.new("a", "b"), "/head" => CountingBody.new("a"),
      "/raise" => CountingBody.new("a", "b") { |part| raise "in each" if part == "b" },
      "/type" => CountingBody.new(:a), "/204" => CountingBody.new("a"), "/header" => CountingBody.new("a"),
      "/long" => CountingBody.new("abc"),
      "/hijack" => CountingBody.new("a"), "/array" => ["a"], "/path" => CountingBody.new("a")
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

  def test_a_body_whose_close_raises_spoils_nothing
    body = ["fine"]
    def body.close = raise("in close")
    serve(->(_env) { [200, {}, body] }) do |served|
      client = connect(served)
      2.times { assert_equal "fine", client.get.body }
      expect_errors(served, /the body's close.*in close/m, /in close/)
    end
  end

  def test_response_finished_is_called_in_reverse_order_with_what_the_app_said
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

  def test_response_finished_that_raises_keeps_no_other_from_running
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

  def test_the_access_log_learns_of_each_request
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

  def test_rack_errors_goes_where_the_server_says
    errors = StringIO.new
    serve(->(env) { env["rack.errors"].puts("oops").then { [200, {}, []] } }, env: { "rack.errors" => errors }) do |served|
      get(served)
      assert_equal "oops\n", errors.string
    end
  end
end

GyreTest::HTTPContract.run(HTTPRackContract, over: %i[http1 tls http2 http2_tls])
