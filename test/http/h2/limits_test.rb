# frozen_string_literal: true

# The limits of Gyre::HTTP::Limits over HTTP/2, beyond those that messages_test.rb and
# faults_test.rb meet: what is just allowed, what comes beyond, and that other streams do not
# notice.

require "test_helper"
require "support/engines"
require "http/h2/serving"

module H2Limits
  include GyreTest::H2Serving

  H2 = GyreTest::H2
  HPACK = GyreTest::HPACK
  ECHO = ->(env) { [200, {}, [env["rack.input"].read.to_s]] }

  # Serves an app whose /wait waits for the gate.
  def with_gate(**limits, &block)
    gate = Thread::Queue.new
    app = lambda do |env|
      gate.pop if env["PATH_INFO"] == "/wait"
      [200, {}, ["hello"]]
    end
    serve(app, limits: limits) { |served| block.call(served, gate) }
  ensure
    gate&.close
  end

  def test_a_target_and_fields_up_to_their_limits_are_read
    serve(ECHO, limits: { request_line_bytes_limit: 64, header_count_limit: 4, header_bytes_limit: 200 }) do |served|
      client = connect(served)
      path = "/#{"a" * (64 - "GET / HTTP/1.1\r\n".bytesize)}"
      assert_equal [200, 414], ([path, "#{path}a"].map { |target| client.get("GET #{target} HTTP/1.1").status })
      assert_equal 200, client.get(a: 1, b: 2, c: 3, d: 4).status
      assert_equal 431, client.get(a: 1, b: 2, c: 3, d: 4, e: 5).status
      assert_equal [200, 431], ([150, 200].map { |length| client.get(a: "x" * length).status })
      assert_equal 200, client.get.status
    end
  end

  def test_a_body_announced_too_long_gets_413_without_the_app
    called = 0
    app = lambda do |env|
      called += 1
      ECHO.call(env)
    end
    serve(app, limits: { body_bytes_limit: 1000 }) do |served|
      client = connect(served)
      assert_equal "x" * 1000, client.post("/", "x" * 1000, content_length: 1000).body
      assert_equal 413, client.open("POST /", content_length: 1001).head.status
      assert_equal 1, called
      assert_equal "x", client.post("/", "x").body
    end
  end

  # The app has read a part; the rest of it was there, and was dropped.
  def test_a_body_that_is_dropped_for_its_memory_is_not_taken_for_a_whole_one
    first, gate, results = Array.new(3) { Thread::Queue.new }
    app = lambda do |env|
      first << env["rack.input"].readpartial(1000)
      gate.pop
      results << env["rack.input"].read
    rescue Gyre::HTTP::RequestError => error
      results << error.status
      raise
    end
    serve(app, limits: { input_bytes_limit: 50_000 }) do |served|
      client = connect(served)
      stream = client.open("POST /")
      stream.write("x" * 1000)
      assert_equal 1000, first.pop.bytesize
      stream.write("x" * 60_000, end_stream: true)
      assert_equal :enhance_your_calm, stream.failure
      gate << true
      assert_equal 503, results.pop
      eventually { served.used.values.all?(&:zero?) }
    end
  ensure
    gate&.close
  end

  def test_trailers_count_for_the_memory_of_bodies
    with_gate(requests_limit: 1) do |served, gate|
      client = connect(served)
      waiting = client.open("GET /wait", end_stream: true)
      eventually { served.stats[:running] == 1 }
      streams = Array.new(10) { client.open("POST /").tap { |stream| stream.finish(HPACK.encode([["a", "y" * 10_000]])) } }
      eventually { served.stats[:waiting] == 10 }
      assert_operator served.used[:input], :>, 100_000
      gate << true
      assert_equal [200] * 11, [waiting, *streams].map { |stream| stream.response.status }
      eventually { served.used.values.all?(&:zero?) }
    end
  end

  def test_trailers_that_are_too_long_get_431
    serve(ECHO, limits: { trailer_bytes_limit: 100 }) do |served|
      client = connect(served)
      assert_equal [200, 431], ([50, 150].map { |length| client.post("/", "x", trailers: [["a", "y" * length]]).status })
    end
  end

  # Head and trailers in one reception: nothing is left to be waited for when the app begins.
  def test_trailers_of_a_body_without_bytes_count_alike_and_reach_the_app
    app = lambda do |env|
      env["rack.input"].read
      [200, {}, [env["gyre.trailers"].call.to_a.join("=")]]
    end
    serve(app, limits: { trailer_bytes_limit: 100 }) do |served|
      client = connect(served)
      streams = [50, 150].map.with_index do |length, index|
        id = 1 + (2 * index)
        client.greet if index.zero?
        client.write(H2.headers(id, HPACK.encode(H2.request + [["te", "trailers"]]), end_stream: false) +
                     H2.headers(id, HPACK.encode([["a", "y" * length]])))
        client.stream(id)
      end
      assert_equal [[200, "a=#{"y" * 50}"], [431, "trailer fields that are too long in all\n"]],
        (streams.map { |stream| stream.response.then { |response| [response.status, response.body] } })
    end
  end

  def assert_slow_body_gets_408(**limits)
    serve(ECHO, limits: limits) do |served|
      client = connect(served)
      slow = client.open("POST /")
      slow.write("x") && client.synchronize until slow.status
      assert_equal 408, slow.status
      eventually(what: "a body in time") { client.post("/", "y").body == "y" }
    end
  end

  def test_a_body_that_goes_on_for_too_long_gets_408
    assert_slow_body_gets_408(body_timeout_s: 0.1)
  end

  def test_a_body_that_is_too_slow_on_average_gets_408
    assert_slow_body_gets_408(body_grace_timeout_s: 0.05, body_rate_bytes_limit: 10_000_000)
  end

  def test_a_body_may_be_as_slow_as_it_has_earned
    serve(ECHO, limits: { body_grace_timeout_s: 0.001, body_rate_bytes_limit: 1000 }) do |served|
      client = connect(served)
      # More than once only where the machine stands still between head and body.
      eventually(what: "the whole body") do
        slow = client.open("POST /").write("x" * 99_999) # 100 s worth
        20.times { client.synchronize }
        slow.write("x", end_stream: true).response.body.bytesize == 100_000
      end
    end
  end

  # --- heads_bytes_limit ---

  def test_the_memory_of_requests_that_wait_is_counted
    with_gate(requests_limit: 1, queue_limit: 1000, heads_bytes_limit: 64 * 1024) do |served, gate|
      client = connect(served)
      first = client.open("GET /wait", end_stream: true)
      eventually { served.stats[:running] == 1 }
      waiting = Array.new(40) { client.open("GET /", end_stream: true, long: "x" * 4000) }
      client.synchronize
      gate.close
      bodies = [first, *waiting].map { |stream| stream.response.body }.tally
      # A head that came in two pieces is refused as such.
      assert_empty bodies.keys.grep_v(/\A(?:hello|the requests that wait hold too much memory\n|too many requests have come in part\n)\z/)
      assert_includes 5..20, bodies["hello"]
      # What was counted is taken off again.
      assert_equal ["hello"], Array.new(40) { client.open("GET /", end_stream: true, long: "x" * 4000).response.body }.uniq
    end
  end

  def test_waiting_requests_that_are_reset_or_cut_hold_no_memory
    with_gate(requests_limit: 1, queue_limit: 1000, heads_bytes_limit: 64 * 1024) do |served, gate|
      client = connect(served)
      client.open("GET /wait", end_stream: true)
      eventually { served.stats[:running] == 1 }
      10.times do
        other = connect(served)
        streams = Array.new(10) { other.open("GET /", end_stream: true, long: "x" * 4000) }
        other.synchronize
        refute(streams.any?(&:over?))
        streams.first(5).each(&:reset)
        other.synchronize.reset
        eventually { served.stats[:connections] == 1 }
      end
      gate.close
    end
  end

  def test_the_memory_of_heads_that_have_come_in_part_is_counted
    with_gate(heads_bytes_limit: 20_000) do |served, _gate|
      block = HPACK.encode(H2.request + [["long", "x" * 4000], ["last", "y" * 20]])
      clients = Array.new(8) do
        connect(served).greet.write(H2.headers(1, block[0..-10], end_headers: false))
      end
      eventually(what: "refusals") { served.stats[:refused].positive? }
      clients.each { |client| client.write(H2.continuation(1, block[-9..])) }
      statuses = clients.map { |client| client.stream(1).response.status }
      assert_equal [200, 503], statuses.uniq.sort
      assert_operator statuses.count(200), :>=, 2
      again = connect(served).greet.write(H2.headers(1, block[0..-10], end_headers: false), H2.continuation(1, block[-9..]))
      assert_equal 200, again.stream(1).response.status
    end
  end
end

GyreTest::Engines.test_case("H2LimitsTest", backends: GyreTest::H2Serving::BACKENDS.first(1)) { include H2Limits }
