# frozen_string_literal: true

# The cache of public responses: RFC 9111 case by case, under a virtual clock; requests that come at
# the same time; hostile ones. And by `gyre serve`, over HTTP/1 and HTTP/2.

require "test_helper"
require "gyre/testing"
require "gyre/web"
require "support/h2_client"
require "web/serving"

class WebCacheTest < Minitest::Test
  include GyreTest::Serving

  PAST = Time.at(1_000_000_000).httpdate
  PUBLIC = { "cache-control" => "public, max-age=60" }.freeze

  # Requests, `after` seconds, with these headers (and method, path, host, scheme, body): the app
  # responds to it; it gets the response that was kept; that response after the app has sent a 304;
  # or this status of the cache.
  class << self
    private

    def app(after = 0, **headers) = [after, headers, :app]
    def kept(after = 0, **headers) = [after, headers, :kept]
    def renewed(after = 0, **headers) = [after, headers, :renewed]
    def gives(status, after: 0, **headers) = [after, headers, status]
  end

  # Maps a rule, with RFC 9111's sections, to [the app's headers, requests and expected results].
  CASES = {
    "a public response with a lifetime is kept for it (3, 4.2)" => [PUBLIC, [app, kept, kept(59), app(1), kept]],
    "s-maxage comes before max-age (5.2.2.10)" => [{ "cache-control" => "s-maxage=5, max-age=60" }, [app, kept(4), app(1)]],
    "s-maxage=0 keeps nothing" => [{ "cache-control" => "public, s-maxage=0, max-age=60" }, [app, app]],
    "max-age comes before Expires (5.3)" => [{ "cache-control" => "public, max-age=5", "expires" => PAST }, [app, kept(4), app(1)]],
    "Expires counts from Date (4.2.1)" => [{ "cache-control" => "public", "expires" => -> { (Time.now + 10).httpdate } }, [app, kept(8), app(2)]],
    "an invalid Expires has passed (5.3)" => [{ "cache-control" => "public", "expires" => "0" }, [app, app]],
    "without a lifetime nothing is kept" => [{ "cache-control" => "public", "last-modified" => PAST }, [app, app]],
    "without public or s-maxage nothing is kept" => [{ "cache-control" => "max-age=60" }, [app, app]],
    "without cache-control nothing is kept" => [{ "etag" => '"a"' }, [app, app]],
    "no-store (5.2.2.5)" => [{ "cache-control" => "public, max-age=60, no-store" }, [app, app]],
    "no-cache (5.2.2.4)" => [{ "cache-control" => "public, max-age=60, no-cache" }, [app, app]],
    "no-cache of fields counts as of all" => [{ "cache-control" => 'public, max-age=60, no-cache="set-cookie, x-a"' }, [app, app]],
    "private (5.2.2.7)" => [{ "cache-control" => "public, private, s-maxage=60" }, [app, app]],
    "a word in quotes is no directive" => [{ "cache-control" => 'max-age=60, ext="public, s-maxage=60"' }, [app, app]],
    "directives in capitals and quotes (5.2)" => [{ "Cache-Control" => 'PUBLIC, Max-Age="60"' }, [app, kept]],
    "several fields are one" => [{ "cache-control" => ["public", "max-age=60"] }, [app, kept]],
    "the first of two equal directives counts (4.2.1)" => [{ "cache-control" => "public, max-age=0, max-age=60" }, [app, app]],
    "an invalid lifetime is none (4.2.1)" => [{ "cache-control" => "public, max-age=6o" }, [app, app]],
    "a huge lifetime is a long one (1.2.2)" => [{ "cache-control" => "public, max-age=#{"9" * 40}" }, [app, kept(1e9), app(2e9)]],
    "Set-Cookie is not kept (7.3)" => [PUBLIC.merge("set-cookie" => "a=1"), [app, app]],
    "Age is counted in (4.2.3)" => [PUBLIC.merge("age" => "50"), [app, kept(9), app(1)]],
    "a Date of long ago as well" => [PUBLIC.merge("date" => PAST), [app, app]],
    "errors of the app are not kept" => [PUBLIC.merge("status" => "500"), [app, app]],
    "a missing page is, if it is called public" => [PUBLIC.merge("status" => "404"), [app, kept, kept(method: "HEAD")]],
    "a 304 that was not asked for is not kept" => [PUBLIC.merge("status" => "304"), [gives(304), gives(304)]],
    "parts are not (3.3)" => [PUBLIC.merge("status" => "206"), [app, app]],
    "Authorization goes to the app (3.5)" => [PUBLIC, [app(authorization: "a"), app, app(authorization: "a")]],
    "no-store of a request keeps nothing (5.2.1.5)" => [PUBLIC, [app("cache-control": "no-store"), app, kept]],
    "no-cache of a request renews (5.2.1.4)" => [PUBLIC, [app, app(50, "cache-control": "no-cache"), kept(50)]],
    "max-age of a request (5.2.1.1)" => [PUBLIC, [app, kept(9, "cache-control": "max-age=10"), app(2, "cache-control": "max-age=10")]],
    "max-age=0 of a request" => [PUBLIC, [app, app("cache-control": "max-age=0"), kept]],
    "min-fresh (5.2.1.3)" => [PUBLIC, [app, kept(49, "cache-control": "min-fresh=10"), app(2, "cache-control": "min-fresh=10")]],
    "max-stale (5.2.1.2)" => [PUBLIC, [
      app, kept(69, "cache-control": "max-stale=10"), kept("cache-control": "max-stale"), app(2, "cache-control": "max-stale=10")
    ]],
    "must-revalidate forbids stale ones (5.2.2.2)" => [{ "cache-control" => "public, max-age=5, must-revalidate" }, [
      app, kept(4), app(2, "cache-control": "max-stale")
    ]],
    "s-maxage as well (5.2.2.10)" => [{ "cache-control" => "s-maxage=5" }, [app, app(6, "cache-control": "max-stale")]],
    "only-if-cached (5.2.1.7)" => [PUBLIC, [gives(504, "cache-control": "only-if-cached"), app, kept("cache-control": "only-if-cached")]],
    "Vary (4.1)" => [PUBLIC.merge("vary" => "Accept-Language, X-A"), [
      app("accept-language": "de"), kept("accept-language": "de"), app("accept-language": "en"), app, kept("accept-language": "de"),
      app("accept-language": "de", "x-a": "1")
    ]],
    "Vary: * is never matched" => [PUBLIC.merge("vary" => "accept, *"), [app, app]],
    "HEAD is answered by the response to GET (RFC 9110, 9.3.2)" => [PUBLIC, [app, kept(method: "HEAD")]],
    "HEAD itself is not kept" => [PUBLIC, [app(method: "HEAD"), app(method: "HEAD"), app]],
    "POST is neither kept nor answered" => [PUBLIC, [app(method: "POST"), app, app(method: "POST")]],
    "a write makes its address old (4.4)" => [PUBLIC, [app, app(method: "PUT", path: "/b"), kept, app(method: "DELETE"), app, kept]],
    "a refused write does not" => [PUBLIC.merge("refuses" => "PUT"), [app, app(method: "PUT"), kept]],
    "OPTIONS is no write" => [PUBLIC, [app, app(method: "OPTIONS"), kept]],
    "query, path, host, port and scheme are the address (2)" => [PUBLIC, [
      app, app(path: "/?a"), app(path: "/?A"), app(path: "/b"), app(host: "b.test"), app(host: "a.test:81"), app(scheme: "https"), kept,
      kept(path: "/?a"), app(port: "8080"), app(host: nil), app(host: nil, port: "8080")
    ]],
    "a forged host is kept for its client only" => [PUBLIC, [
      app("x-forwarded-host": "evil.test"), app, kept, app("x-forwarded-proto": "https"), app(forwarded: "host=evil")
    ]],
    "a frame of Turbo has its own layout" => [PUBLIC, [app("turbo-frame": "cart"), app, kept, kept("turbo-frame": "cart")]],
    "a GET with a body goes to the app" => [PUBLIC, [app(body: "a"), app, app(body: "a")]],
    "an upgrade goes to the app" => [PUBLIC, [app, app(upgrade: "websocket")]],
    "conditions of a reader (4.3.2)" => [PUBLIC.merge("etag" => '"a"', "last-modified" => PAST), [
      app, gives(304, "if-none-match": '"b", W/"a"'), gives(304, "if-none-match": "*"), kept("if-none-match": '"b"'),
      gives(304, "if-modified-since": PAST), kept("if-modified-since": PAST, "if-none-match": '"b"')
    ]],
    "a conditional response is not kept, and the next whole one is" => [PUBLIC.merge("etag" => '"a"', "fresh" => '"a"'), [
      gives(304, "if-none-match": '"a"'), app, kept
    ]],
    "a stale response of an address that keeps none any more is gone" => [PUBLIC.merge("etag" => '"a"', "later" => "private"), [
      app, app(61), app("cache-control": "max-stale")
    ]],
    "a date is a condition, too" => [PUBLIC.merge("last-modified" => PAST, "fresh" => PAST), [app, renewed(61), kept]],
    "conditions of a writer are the app's" => [PUBLIC.merge("etag" => '"a"'), [app, app("if-match": '"b"')]],
    "a range is cut from a whole response (3.3)" => [PUBLIC.merge("etag" => '"a"'), [
      app(range: "bytes=0-1"), app, gives(206, range: "bytes=0-1"), gives(416, range: "bytes=99-"),
      gives(206, range: "bytes=0-1", "if-range": '"a"'), kept(range: "bytes=0-1", "if-range": '"b"'), kept(range: "x")
    ]],
    "but not from a coded one" => [PUBLIC.merge("content-encoding" => "x"), [app, app(range: "bytes=0-1")]],
    "a stale response is asked for (4.3.1, 4.3.4)" => [PUBLIC.merge("etag" => '"a"', "fresh" => '"a"'), [
      app, renewed(61), kept(59), gives(304, after: 2, "if-none-match": '"a"'), kept
    ]],
    "and replaced, if it has changed (4.3.3)" => [PUBLIC.merge("etag" => '"a"', "fresh" => '"b"'), [app, app(61), kept]],
    "a range of a stale response is the app's" => [PUBLIC.merge("etag" => '"a"', "fresh" => '"a"'), [app, app(61, range: "bytes=0-1"), renewed]],
    "fields may be of any encoding" => [{ "cache-control" => "public, max-age=60, \xFF", "vary" => "\xC3, x-\u00e9" }, [app, kept]],
    "bodies of files stay files" => [PUBLIC.merge("to_path" => "a"), [app, app]],
    "and names of files are for their layer" => [PUBLIC.merge("x-sendfile" => "/a"), [app, app]],
    "a stream of events is not kept" => [PUBLIC.merge("content-type" => "text/event-stream"), [app, app]],
    "a body over the limit is not kept" => [PUBLIC.merge("bytes" => "2000"), [app, app]]
  }.freeze

  CASES.each do |name, (headers, requests)|
    define_method("test_#{name.gsub(/\W+/, "_")}") do
      virtually do
        cache = cache(app(headers))
        requests.each_with_index do |(seconds, request, expected), index|
          sleep seconds
          before = @calls.size
          status, _, body = get(cache, **request)
          body = body.join if body.respond_to?(:join)
          seen = status
          assert_empty body if request[:method] == "HEAD" && expected == :kept
          if expected.is_a?(Symbol)
            new = body.to_s.strip.end_with?(" #{@calls.size}") || status != 200
            seen = if @calls.size == before then :kept
                   else new ? :app : :renewed
                   end
          end
          assert_equal expected, seen, "request #{index}"
        end
      end
    end
  end

  def test_a_kept_response_has_its_own_fields_its_age_and_its_date
    virtually do
      app = app(PUBLIC.merge("etag" => '"a"', "x-request-id" => "7", "x-runtime" => "1", "connection" => "x-hop", "x-hop" => "1", "x-a" => %w[1 2]))
      cache = cache(app)
      assert_equal %w[7 1], get(cache)[1].values_at("x-request-id", "x-hop")
      sleep 7.9
      _, fields, body = get(cache)
      assert_equal [%w[age cache-control date etag x-a], "7", "1, 2", ["body 1"]], [fields.keys.sort, fields["age"], fields["x-a"], body]
      assert_in_delta Time.now, Time.httpdate(fields["date"]), 2
      _, fields, body = get(cache, "if-none-match": '"a"')
      assert_equal ["7", nil, []], [fields["age"], fields["x-a"], body]
      _, fields, = get(cache, method: "HEAD")
      assert_equal "6", fields["content-length"]
    end
  end

  def test_an_answer_can_be_changed_by_outer_layers_without_harm_to_the_next
    virtually do
      cache = cache(app(PUBLIC))
      2.times { get(cache)[1].tap { |fields| fields.clear } }
      assert_equal "public, max-age=60", get(cache)[1]["cache-control"]
    end
  end

  def test_a_304_renews_fields_but_not_those_of_the_body_and_not_the_variant
    virtually do
      answers = [[200, PUBLIC.merge("etag" => 'W/"a"', "vary" => "accept-encoding", "content-encoding" => "gzip", "x-a" => "old",
                                       "date" => (Time.now - 30).httpdate, "age" => "20"), ["zipped"]],
                 [304, { "etag" => '"a"', "content-encoding" => "br", "vary" => "accept", "cache-control" => "public, max-age=5",
                         "x-a" => "new" }, []]]
      seen = []
      closed = 0
      cache = cache(lambda do |env|
        seen << env.slice("HTTP_IF_NONE_MATCH", "HTTP_IF_MODIFIED_SINCE")
        status, headers, body = answers.fetch(seen.size - 1)
        [status, headers, Class.new(Array) { define_method(:close) { closed += 1 } }.new(body)]
      end)
      get(cache, "accept-encoding": "gzip")
      sleep 61
      status, fields, body = get(cache, "accept-encoding": "gzip", "if-none-match": '"other"')
      assert_equal [200, "new", 'W/"a"', "gzip", "accept-encoding, accept", ["zipped"]],
                   [status, *fields.values_at("x-a", "etag", "content-encoding", "vary"), body]
      assert_equal [{}, { "HTTP_IF_NONE_MATCH" => 'W/"a"' }], seen
      assert_equal 1, closed # of the 304, whose body no layer sees
      sleep 4
      assert_equal "4", get(cache, "accept-encoding": "gzip")[1]["age"]
      assert_raises(IndexError) { get(cache) } # another variant, for which the app has no answer
    end
  end

  def test_a_304_with_a_cookie_or_private_is_for_its_client_and_ends_the_kept_response
    [{ "set-cookie" => %w[a=1 b=2] }, { "cache-control" => "private" }].each do |extra|
      virtually do
        app = app(PUBLIC.merge("etag" => '"a"', "fresh" => '"a"'), extra: extra)
        cache = cache(app)
        get(cache)
        sleep 61
        status, fields, body = get(cache)
        assert_equal [200, extra, ["body 1"]], [status, fields.slice(*extra.keys), body]
        assert_equal [0, 0], cache.figures.values_at("hits", "bytes")
      end
    end
  end

  def test_the_clients_conditions_are_back_after_the_app
    virtually do
      cache = cache(app(PUBLIC.merge("etag" => '"a"', "fresh" => '"a"')))
      get(cache)
      sleep 61
      env = env("if-none-match": '"b"', "if-modified-since": PAST)
      cache.call(env)
      assert_equal ['"b"', PAST], env.values_at("HTTP_IF_NONE_MATCH", "HTTP_IF_MODIFIED_SINCE")
    end
  end

  def test_what_the_app_does_with_env_does_not_change_the_variant
    virtually do
      cache = cache(lambda do |env|
        language = env.delete("HTTP_ACCEPT_LANGUAGE")
        [200, PUBLIC.merge("vary" => "accept-language"), [language.to_s]]
      end)
      assert_equal [["de"], ["en"], ["de"], [""]], ["de", "en", "de", nil].map { |language| get(cache, "accept-language": language).last }
      assert_equal 1, cache.figures["hits"]
    end
  end

  def test_one_of_many_requests_fetches_and_the_others_wait
    [->(parts) { parts }, ->(parts) { parts.each }].each do |kind|
      virtually do |task|
        cache = cache(app(PUBLIC, body: kind) { sleep 1 })
        assert_equal ["body 1"] * 20, at_once(task, 20) { read(get(cache)) }
        assert_equal [1, 19, 1], [@calls.size, *cache.figures.values_at("hits", "misses")]
      end
    end
  end

  def test_variants_are_fetched_side_by_side_once_they_are_known
    virtually do |task|
      cache = cache(app(PUBLIC.merge("vary" => "accept-language")) { sleep 1 })
      get(cache, "accept-language": "fr")
      seconds = seconds { at_once(task, 20) { |index| get(cache, "accept-language": index.even? ? "de" : "en") } }
      assert_equal [3, 1.0], [@calls.size, seconds]
    end
  end

  def test_no_request_waits_where_responses_are_not_kept
    virtually do |task|
      headers = {}
      cache = cache(app(headers) { sleep 1 })
      assert_equal 2.0, (seconds { at_once(task, 5) { get(cache) } }) # the first time the others learn it from one
      assert_equal 1.0, (seconds { at_once(task, 5) { get(cache) } })
      headers.update(PUBLIC)
      get(cache) # learns that it has changed
      assert_equal 1.0, (seconds { at_once(task, 5) { get(cache) } })
      assert_equal 4, cache.figures["hits"]
    end
  end

  def test_a_request_with_directives_waits_for_no_other
    virtually do |task|
      cache = cache(app(PUBLIC) { sleep 1 })
      assert_equal 1.0, (seconds { at_once(task, 5) { get(cache, "cache-control": "max-age=0") } })
      bytes = cache.figures["bytes"]
      get(cache, "cache-control": "no-cache")
      assert_equal [bytes, 6], [cache.figures["bytes"], @calls.size] # a new response takes the old one's place
    end
  end

  def test_a_failed_or_cancelled_fetch_holds_up_no_other_request
    [-> { raise "trouble" }, -> { Gyre::Task.current.stop }].each do |trouble|
      virtually do |task|
        cache = cache(app(PUBLIC) do
          sleep 1
          trouble.call if @calls.size == 1
        end)
        first = task.async { get(cache) rescue nil }
        assert_equal ["body 2", "body 3"], (at_once(task, 2) { read(get(cache)) }).sort
        first.wait
        assert_equal ["body 4"] * 2, Array.new(2) { read(get(cache)) }
      end
    end
  end

  def test_others_wait_neither_for_a_slow_client_nor_without_a_limit
    virtually do |task|
      cache = cache(app(PUBLIC, body: ->(_) { ["part"].cycle(10) }))
      first = task.async { get(cache).last.each { sleep 30 } }
      sleep 0.1
      assert_operator (seconds { at_once(task, 5) { assert_equal "part" * 10, read(get(cache)) } }), :<, 1
      first.stop
      sleep 0.1
      assert_equal 6, @calls.size
      get(cache).last.close # a client that has left
      refute_nil read(get(cache))
      read(get(cache))
      assert_equal [8, 1], [@calls.size, cache.figures["hits"]]
      cache = cache(app(PUBLIC) { sleep 1000 if @calls.one? })
      task.async { get(cache) }
      sleep 0.1
      assert_in_delta 5, (seconds { get(cache) }), 0.01
      task.children.each(&:stop)
    end
  end

  def test_a_stream_is_passed_on_part_by_part_and_kept_at_its_end
    virtually do
      log = []
      cache = cache(->(_) { [200, PUBLIC, Enumerator.new { |to| %w[a ü].each { |part| to << part.tap { log << part } } }] })
      get(cache).last.each { |part| log << "sent #{part}" }
      assert_equal ["a", "sent a", "ü", "sent ü"], log
      assert_equal ["aü".b], get(cache).last
    end
  end

  def test_a_stream_that_is_cut_or_too_long_or_not_as_long_as_said_is_not_kept
    { {} => Enumerator.new { |to|
 to << "a" and raise "cut" }, { "content-length" => "3" } => ["a"].each, { "content-length" => "1000000" } => ["a"].each,
      { "x-long" => "" } => (["x" * 600] * 2).each, { "x-type" => "" } => [1].each,
      { "x-file" => "" } => Class.new(Gyre::HTTP::Files::Body) { def each = yield("a") }.allocate }.each do |headers, body|
      virtually do
        cache = cache(->(_) { [200, PUBLIC.merge(headers), body] })
        2.times do
          get(cache).last.each { |_| nil }
        rescue RuntimeError => error
          assert_equal "cut", error.message
        end
        assert_equal [0, 2, 0], cache.figures.values_at("hits", "misses", "bytes"), headers
        get(cache).last.each { |_| nil } if headers["x-long"]
        assert_equal headers.keys.intersect?(%w[x-long x-file]) || headers["content-length"].to_i > 1000, cache.instance_variable_get(:@passing).any?
      end
    end
  end

  def test_a_write_during_a_fetch_keeps_the_old_response_from_being_stored
    virtually do |task|
      cache = cache(app(PUBLIC) { sleep 1 unless @calls.size == 2 })
      first = task.async { get(cache) }
      sleep 0.1
      get(cache, method: "PATCH")
      assert_equal "body 1", read(first.wait)
      assert_equal "body 3", read(get(cache))
      assert_equal "body 3", read(get(cache))
    end
  end

  def test_memory_stays_below_its_limit_and_what_is_used_stays
    virtually do
      cache = cache(app(PUBLIC.merge("bytes" => "900")), bytes_limit: 70_000)
      200.times do |index|
        get(cache, path: "/#{index}", "x-flood": "x" * 1000)
        get(cache, path: "/used")
        assert_operator cache.figures["bytes"], :<=, 70_000
      end
      assert_equal 199, cache.figures["hits"]
      cache = cache(app(PUBLIC.merge("vary" => "x-flood", "bytes" => "900")), bytes_limit: 1 << 30)
      200.times { |index| get(cache, "x-flood": "#{index} #{"x" * 1000}") }
      assert_in_delta Gyre::Web::Cache::VARIANTS_LIMIT * 4700, cache.figures["bytes"], 5000
      cache = cache(app({}), bytes_limit: 1 << 30)
      (Gyre::Web::Cache::PASSING_LIMIT + 10).times { |index| get(cache, path: "/#{index}") }
      assert_equal [0, Gyre::Web::Cache::PASSING_LIMIT], [cache.figures["bytes"], cache.instance_variable_get(:@passing).size]
    end
  end

  def test_long_and_invalid_directives_do_no_harm
    ['a="' * 300, "a=" * 500, "=,\"\xFF\x00\xC3".b, ",;= \t", "max-age=#{"9" * 900}"].each do |text|
      virtually do
        cache = cache(app(PUBLIC.merge("x-text" => "\xFF", "x-other" => ["\u00e9", "\xC3".b])))
        assert_equal [200, 200, 1], [get(cache, "cache-control": text).first, get(cache, "cache-control": text).first, cache.figures["hits"]]
        assert_equal "body 2", read(get(cache, "cache-control": "#{text}#{" " * 1024}")) # which is not read
      end
    end
  end

  def test_coded_bodies_are_kept_by_what_the_client_accepts
    calls = 0
    app = lambda do |_|
      calls += 1
      [200, PUBLIC.merge("content-type" => "text/plain", "etag" => '"a"'), ["x" * 2000]]
    end
    layer = Gyre::Web::Layers.new(app, log: nil, compress: true, cache: 1 << 20, request_id: true)
    bodies = ["gzip", "gzip", nil, nil, "gzip"].map { |coding| layer.app.call(env("accept-encoding": coding)) }
    assert_equal [["gzip", 'W/"a"'], [nil, '"a"'], 2, 5],
                 [bodies[4][1].values_at("content-encoding", "etag"), bodies[3][1].values_at("content-encoding", "etag"), calls,
                  bodies.map { |_, headers, _| headers["x-request-id"] }.uniq.size]
    assert_equal ["x" * 2000] * 2, [Zlib.gunzip(bodies[1].last.join), bodies[3].last.join]
    assert_nil Gyre::Web::Layers.new(app, log: nil).cache
  end

  def test_gyre_serve_keeps_public_pages_of_both_protocols
    app = <<~RUBY
      count = 0
      run(lambda do |env|
        page = "page \#{count += 1} over \#{env["SERVER_PROTOCOL"]}"
        [200, { "cache-control" => "public, max-age=60", "etag" => '"a"' }, [env["PATH_INFO"] == "/" ? page : page.ljust(100)]]
      end)
    RUBY
    serve("--metrics", "unix://metrics", app: app, env: { "CACHE_SIZE" => "1048576", "MAX_CACHE_ITEM_SIZE" => "99" }) do |program|
      assert_match(/\r\n\r\npage 1 over HTTP.1.1\z/, program.get("/"))
      assert_match(/^age: 0\r\n.*\r\n\r\npage 1 over HTTP.1.1\z/m, program.get("/"))
      client = GyreTest::H2Client.new(self, TCPSocket.new("127.0.0.1", program.port))
      page, head, same = [["GET", {}], ["HEAD", {}], ["GET", { if_none_match: '"a"' }]].map do |method, fields|
        client.get("#{method} /", host: "localhost", **fields)
      end
      assert_equal [["page 1 over HTTP/1.1", "200"], ["", "20"], ["", 304]],
                   [[page.body, page.status.to_s], [head.body, head["content-length"]], [same.body, same.status.to_i]]
      assert_match(/page 3/, program.get("/long").then { program.get("/long") })
      status = Socket.unix("#{program.folder}/metrics") { |socket| socket.write("GET /metrics HTTP/1.0\r\n\r\n") && socket.read }
      assert_equal %w[4 3], status.scan(/^gyre_http_cache_(?:hits|misses)_total (\d+)/).flatten
    ensure
      client&.close
    end
  end

  private

  def virtually(&block) = Gyre::Testing.run(seed: 1, &block)

  # Keeps bodies of up to 1,000 bytes.
  def cache(app, bytes_limit: 1 << 20) = Gyre::Web::Cache.new(app, bytes_limit: bytes_limit, item_bytes_limit: 1000)

  # Responds with these headers, and a body that numbers the calls. "status", "refuses" (a method),
  # "fresh" (a condition that gets a 304), "later" (cache-control of all but the first), "bytes" and
  # "to_path" say what else it does; the block too.
  def app(headers, extra: {}, body: ->(parts) { parts })
    @calls = []
    lambda do |env|
      @calls << env["REQUEST_METHOD"]
      text = "body #{@calls.size}".ljust(headers["bytes"].to_i)
      yield if block_given?
      fields = headers.reject { |name, _| %w[status refuses fresh later bytes to_path].include?(name) }
      fields["cache-control"] = headers["later"] if headers["later"] && @calls.size > 1
      fields = fields.transform_values { |value| value.respond_to?(:call) ? value.call : value }
      next [422, fields, [text]] if headers["refuses"] == env["REQUEST_METHOD"]
      conditions = env.values_at("HTTP_IF_NONE_MATCH", "HTTP_IF_MODIFIED_SINCE")
      next [304, fields.merge(extra), []] if headers["fresh"] && conditions.include?(headers["fresh"])

      content = body.call([text])
      content.define_singleton_method(:to_path) { "a" } if headers["to_path"]
      [(headers["status"] || 200).to_i, fields.dup, content]
    end
  end

  def env(method: "GET", path: "/", scheme: "http", host: "a.test", port: "80", body: nil, **headers)
    path, query = path.split("?", 2)
    { "REQUEST_METHOD" => method, "PATH_INFO" => path, "QUERY_STRING" => query.to_s, "rack.url_scheme" => scheme, "HTTP_HOST" => host,
      "SERVER_PORT" => port, "rack.input" => body ? StringIO.new(body) : Gyre::HTTP::Input::EMPTY,
      **headers.compact.to_h { |name, value| ["HTTP_#{name.to_s.upcase.tr("-", "_")}", value] } }
  end

  def get(cache, **request) = cache.call(env(**request))

  def read(response) = [].tap { |parts| response.last.each { |part| parts << part } }.join

  def at_once(task, count) = Array.new(count) { |index| task.async { yield index } }.map(&:wait)

  def seconds
    start = Gyre::Testing.now
    yield
    (Gyre::Testing.now - start).round(3)
  end
end
