# frozen_string_literal: true

# What a client does, whatever protocol or app is at the other end. No test itself: contract_test.rb
# runs these cases.

require "gyre/http/client"
require "http/serving"
require "pathname"
require "stringio"
require "tempfile"
require "zlib"

module GyreTest
  # For test classes with `reach`, which yields a client for an app.
  module HTTPClientContract
    include HTTPServing

    # Tells what it got.
    ECHO = lambda do |env|
      input = env["rack.input"]&.read.to_s
      headers = env.select { |name, _| name.start_with?("HTTP_", "CONTENT_") }
      [200, { "content-type" => "application/json" }, [JSON.generate({ method: env["REQUEST_METHOD"], path: env["PATH_INFO"],
                                                                       query: env["QUERY_STRING"], headers: headers, body: input })]]
    end

    def test_a_get_has_its_path_and_query
      reach(ECHO) do |client|
        got = client.get("/a/b?c=d#e", query: { "e f" => "1&2" }).json
        assert_equal ["GET", "/a/b", "c=d&e+f=1%262", ""], got.values_at("method", "path", "query", "body")
      end
    end

    def test_headers_go_out_and_nil_leaves_one_out
      reach(ECHO) do |client|
        headers = client.get("/", headers: { "X-One" => "1", two: "2", "accept" => nil }).json["headers"]
        assert_equal ["1", "2", nil], headers.values_at("HTTP_X_ONE", "HTTP_TWO", "HTTP_ACCEPT")
        assert_match(/\AGyre/, headers["HTTP_USER_AGENT"])
      end
      reach(ECHO, headers: { "user-agent" => nil }) { |client| refute_includes client.get("/").json["headers"], "HTTP_USER_AGENT" }
    end

    def test_bodies_go_out_as_string_json_form_and_stream
      reach(ECHO) do |client|
        assert_equal %w[POST abc], client.post("/", "abc").json.values_at("method", "body")
        assert_equal ["{\"a\":1}", "application/json"], sent(client.put("/", json: { a: 1 }))
        assert_equal ["false", "application/json"], sent(client.put("/", json: false))
        assert_equal ["a=1&b=%C3%A4", "application/x-www-form-urlencoded"], sent(client.patch("/", form: { a: 1, b: "ä" }))
        assert_equal "one two", client.post("/", ["one", " ", "two"].each).json["body"]
        assert_equal "io", client.post("/", StringIO.new("io")).json["body"]
        assert_equal "whole", client.post("/", "whole", headers: { "content-length" => "3" }).json["body"]
        assert_equal "", client.post("/").json["body"]
      end
    end

    def test_a_file_goes_out_with_its_length
      reach(ECHO) do |client|
        Tempfile.create("body") do |file|
          file.write("x" * 200_000)
          file.rewind
          got = client.put("/", file).json
          assert_equal [200_000, "200000"], [got["body"].size, got["headers"]["CONTENT_LENGTH"]]
        end
      end
    end

    def test_multipart_carries_fields_and_files
      reach(ECHO) do |client|
        file = { content: StringIO.new("data"), filename: "a\"b.txt", content_type: "text/plain" }
        got = client.post("/", multipart: { "name" => "val\"ue", "file" => file }).json
        boundary = got["headers"]["CONTENT_TYPE"][/boundary=(\h+)\z/, 1]
        assert_equal "--#{boundary}\r\ncontent-disposition: form-data; name=\"name\"\r\n\r\nval\"ue\r\n" \
                     "--#{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a%22b.txt\"\r\ncontent-type: text/plain\r\n\r\n" \
                     "data\r\n--#{boundary}--\r\n", got["body"]
      end
    end

    def test_a_response_has_status_headers_and_body
      app = ->(_) { [404, { "x-a" => "1", "set-cookie" => ["a=1", "b=2"] }, ["not ", "here"]] }
      reach(app) do |client|
        response = client.get("/")
        assert_equal [404, false, "not here"], [response.status, response.ok?, response.body]
        assert_equal ["1", %w[a=1 b=2]], [response["X-A"], response["set-cookie"]]
        error = assert_raises(Gyre::HTTP::Client::StatusError) { response.check }
        assert_equal [:status, response], [error.phase, error.response]
      end
    end

    def test_head_and_no_content_have_no_body
      reach(->(env) { [env["PATH_INFO"] == "/204" ? 204 : 200, {}, ["x"]] }) do |client|
        assert_equal "", client.head("/").body
        assert_equal [204, ""], client.get("/204").then { |response| [response.status, response.body] }
        assert_equal "x", client.get("/").body
      end
    end

    def test_text_has_the_charset
      reach(->(_) { [200, { "content-type" => "text/plain; charset=iso-8859-1" }, ["\xE4".b]] }) do |client|
        assert_equal "ä", client.get("/").text.encode("utf-8")
      end
    end

    def test_a_body_streams_within_a_block_and_the_rest_is_dropped
      reach(->(_) { [200, {}, Array.new(200) { "x" * 10_000 }] }) do |client|
        whole = 0
        assert_equal(:result, client.get("/") { |response| response.each { |piece| whole += piece.bytesize } && :result })
        assert_equal 2_000_000, whole
        client.get("/") { |response| response.each.next }
        assert_equal 2_000_000, client.get("/").body.bytesize
      end
    end

    def test_a_streamed_response_is_the_callers
      reach(->(_) { [200, {}, Array.new(50) { "x" * 10_000 }] }) do |client|
        out = StringIO.new
        assert_equal 500_000, client.stream("GET", "/").save(out)
        assert_equal 500_000, out.string.bytesize
        client.stream("GET", "/").close
      end
    end

    def test_compressed_bodies_are_decoded
      reach(compressed("hello " * 1000)) do |client|
        %w[/gzip /deflate /raw].each { |path| assert_equal "hello " * 1000, client.get(path).body, path }
        assert_equal "\x1f\x8b".b, client.get("/gzip", headers: { "accept-encoding" => "gzip" }).body.byteslice(0, 2)
      end
    end

    def test_a_decompression_bomb_is_stopped
      bomb = Zlib.gzip("\0" * 20_000_000)
      reach(->(_) { [200, { "content-encoding" => "gzip" }, [bomb]] }, body_bytes_limit: 1_000_000) do |client|
        error = assert_raises(Gyre::HTTP::Client::TooLargeError) { client.get("/") }
        assert_match(/more than 1000000 bytes/, error.message)
      end
    end

    def test_a_cut_or_broken_compressed_body_is_an_error
      bodies = { "/cut" => Zlib.gzip("hello" * 100)[0..20], "/broken" => "no gzip at all" }
      reach(->(env) { [200, { "content-encoding" => "gzip" }, [bodies.fetch(env["PATH_INFO"])]] }) do |client|
        assert_raises(Gyre::HTTP::Client::ProtocolError) { client.get("/cut") }
        response = client.stream("GET", "/broken")
        2.times { assert_raises(Gyre::HTTP::Client::ProtocolError) { response.body } }
      end
    end

    def test_a_body_beyond_the_limit_is_an_error
      reach(->(_) { [200, {}, Array.new(30) { "x" * 10_000 }] }, body_bytes_limit: 100_000) do |client|
        assert_raises(Gyre::HTTP::Client::TooLargeError) { client.get("/") }
        client.get("/") { |response| assert_equal 300_000, response.each.sum(&:bytesize) }
        response = client.stream("GET", "/")
        2.times { assert_raises(Gyre::HTTP::Client::TooLargeError) { response.body } }
      end
    end

    def test_redirects_are_followed_by_the_rules
      app = lambda do |env|
        status = env["PATH_INFO"][/\d+/].to_i
        status.zero? ? ECHO.call(env) : [status, { "location" => "../end?x=#{status}" }, ["moved"]]
      end
      reach(app) do |client|
        assert_equal %w[GET x=301], client.post("/a/301", "b").json.values_at("method", "query")
        assert_equal ["GET", ""], client.put("/a/303", "b").json.values_at("method", "body")
        assert_equal %w[PUT b], client.put("/a/301", "b").json.values_at("method", "body")
        assert_equal %w[POST b], client.post("/a/307", "b").json.values_at("method", "body")
        assert_equal %w[POST io], client.post("/a/308", StringIO.new("io")).json.values_at("method", "body")
        assert_raises(Gyre::HTTP::Client::RedirectError) { client.post("/a/308", ["a"].each) }
        assert_equal "/end", client.get("/a/302").json["path"]
      end
    end

    def test_endless_redirects_and_bad_addresses_are_errors
      locations = { "/loop" => "/loop", "/ftp" => "ftp://a/", "/port" => "http://a:99999/" }
      reach(->(env) { [302, { "location" => locations.fetch(env["PATH_INFO"]) }, []] }) do |client|
        locations.each_key do |path|
          error = assert_raises(Gyre::HTTP::Client::RedirectError) { client.get(path) }
          assert_equal :redirect, error.phase
        end
      end
    end

    def test_cookies_come_back_on_request_only
      cookies = ["a=1; path=/in", "b=2; secure; path=/", "c=3; max-age=0", "d=4; domain=example.org"]
      app = ->(env) { [200, { "set-cookie" => cookies }, [env["HTTP_COOKIE"].to_s]] }
      reach(app, cookies: true) do |client|
        assert_equal "", client.get("/in/x").body
        assert_equal tls? ? "a=1; b=2" : "a=1", client.get("/in/y").body
        assert_equal tls? ? "b=2" : "", client.get("/out").body
      end
      reach(app) { |client| 2.times { assert_equal "", client.get("/in/x").body } }
    end

    def test_a_redirect_brings_the_cookies_that_are_new_and_its_own
      app = lambda do |env|
        next [200, {}, [env["HTTP_COOKIE"].to_s]] unless env["PATH_INFO"] == "/login"

        [302, { "set-cookie" => ["id=#{env["HTTP_COOKIE"].to_s.size}", "b=1; path=/login"], "location" => "/home" }, []]
      end
      reach(app, cookies: true) do |client|
        assert_equal "id=0", client.get("/login").body
        assert_equal "own=1; id=16", client.get("/login", headers: { "cookie" => "own=1" }).body
      end
    end

    def test_an_error_of_the_bodys_source_reaches_the_caller_as_it_is
      reach(ECHO) do |client|
        [EOFError.new, Errno::EIO.new, Gyre::TimeoutError.new("mine"), Gyre::ProtocolError.new("mine"), KeyError.new].each do |error|
          reading = StringIO.new("abc").tap { |io| io.define_singleton_method(:read) { |*| raise error } }
          [Enumerator.new { |out| (out << "one") && raise(error) }, reading].each do |source|
            assert_same error, assert_raises(error.class) { client.post("/", source) }
            assert_nil error.cause
          end
        end
        assert_equal "three", client.post("/", "three").json["body"]
      end
    end

    def test_credentials_are_sent_and_never_shown
      reach(ECHO, basic: ["user", "secret"]) do |client|
        assert_equal "Basic dXNlcjpzZWNyZXQ=", client.get("/").json["headers"]["HTTP_AUTHORIZATION"]
        refute_match(/secret|dXNl/, client.inspect)
      end
    end

    def test_invalid_input_is_an_argument_error_and_harms_nothing
      reach(ECHO) do |client|
        assert_raises(ArgumentError) { client.get("/a b") }
        assert_raises(ArgumentError) { client.get("/\r\nx") }
        assert_raises(ArgumentError) { client.get("/", headers: { "a" => "b\r\nc: d" }) }
        assert_raises(ArgumentError) { client.get("/", headers: { "a b" => "c" }) }
        assert_raises(ArgumentError) { client.request("GE T", "/") }
        assert_raises(ArgumentError) { client.post("/", 5) }
        assert_match(/has one of them/, assert_raises(ArgumentError) { client.post("/", json: {}, form: {}) }.message)
        assert_raises(ArgumentError) { client.post("/", Pathname(__FILE__)) }
        assert_equal "/", client.get("/").json["path"]
      end
    end

    def test_many_requests_share_few_connections
      reach(ECHO, connections_limit: 4) do |client|
        bodies = at_once(40) { |index| client.get("/#{index}").json["path"] }
        assert_equal Array.new(40) { |index| "/#{index}" }, bodies
      end
    end

    def test_trailers_come_after_the_body
      app = lambda do |env|
        env["gyre.response_trailers"]&.call({ "x-sum" => "7" })
        [200, { "trailer" => "x-sum" }, ["a", "b"]]
      end
      reach(app) do |client|
        response = client.get("/")
        assert_equal "ab", response.body
        assert_equal({ "x-sum" => "7" }, response.trailers) if response.trailers
      end
    end

    def test_fan_out_yields_in_the_order_of_the_answers
      reach(ECHO) do |client|
        paths = []
        client.fan_out(%w[/a /b /c], limit: 2) { |response| paths << response.json["path"] }
        assert_equal %w[/a /b /c], paths.sort
        assert_raises(ArgumentError) { client.fan_out(["/a b"], limit: 0, on_error: ->(_) { flunk }) { flunk } }
      end
    end

    # While the block has the first response, `limit` others may wait for it.
    def test_fan_out_fetches_no_more_than_its_limit_ahead_of_the_block
      asked = done = 0
      ahead = []
      reach(->(_) { (ahead << (asked += 1) - done) && [200, {}, []] }) do |client|
        given = []
        client.fan_out(Array.new(30) { |index| "/#{index}?q=#{index}" }, limit: 3) do |response, url|
          given << [url, response.url[%r{/\d+.*}]]
          eventually { asked == 3 + 1 } if given.one?
          done += 1
        end
        assert_equal [30, true, 3 + 1], [given.uniq.size, given.all? { |url, reached| url == reached }, ahead.max]
      end
    end

    def test_fan_out_gives_errors_of_requests_to_on_error_and_those_of_its_block_to_the_caller
      reach(ECHO, body_bytes_limit: 2000) do |client|
        errors = []
        urls = ["/a", "/#{"b" * 2500}", "/c"]
        paths = []
        client.fan_out(urls, on_error: ->(error) { errors << error }) { |_, url| paths << url }
        assert_equal [%w[/a /c], [Gyre::HTTP::Client::TooLargeError]], [paths.sort, errors.map(&:class)]
        raised = Gyre::HTTP::Client::Error.new("of the block")
        seen = assert_raises(Gyre::HTTP::Client::Error) { client.fan_out(urls, on_error: ->(error) { errors << error }) { raise raised } }
        assert_same raised, seen
        assert_equal "/a", client.get("/a").json["path"]
      end
    end

    def test_an_options_request_may_ask_the_whole_server
      reach(ECHO) { |client| assert_equal %w[OPTIONS *], client.request(:options, "*").json.values_at("method", "path") }
    end

    def test_the_report_has_phases_and_bytes
      reports = []
      reach(->(_) { [200, {}, ["12345"]] }, instrument: ->(report) { reports << report }) do |client|
        2.times { client.get("/path?secret") }
        assert_equal [["GET", 200, 5, 1]] * 2, reports.map { |report| [report.request_method, report.status, report.received_bytes, report.attempts] }
        assert_operator reports.last.head_s, :<=, reports.last.total_s
        refute_match(/secret/, reports.last.to_s)
      end
    end

    # Only the first connection is used.
    def test_an_error_of_the_instrument_reaches_the_caller_and_no_pool
      app = ->(env) { [204, { "x-port" => env["REMOTE_PORT"].to_s }, []] }
      reach(app, instrument: ->(_) { raise "no disk" }) do |client|
        3.times { assert_equal "no disk", assert_raises(RuntimeError) { client.get("/") }.message }
        kept = client.instance_variable_get(:@homes).values.flat_map(&:pools).flat_map { |pool| pool.instance_variable_get(:@idle).to_a }
        assert_equal kept.uniq, kept
      end
    end

    private

    def sent(response) = [response.json["body"], response.json["headers"]["CONTENT_TYPE"]]

    def at_once(count, &block) = Array.new(count) { |index| Thread.new { block.call(index) } }.map(&:value)

    def compressed(text)
      raw = Zlib::Deflate.new(nil, -Zlib::MAX_WBITS)
      bodies = { "gzip" => Zlib.gzip(text), "deflate" => Zlib::Deflate.deflate(text), "raw" => raw.deflate(text, Zlib::FINISH) }
      raw.close
      lambda do |env|
        name = env["PATH_INFO"].delete("/")
        [200, { "content-encoding" => name == "raw" ? "deflate" : name }, [bodies.fetch(name)]]
      end
    end
  end
end
