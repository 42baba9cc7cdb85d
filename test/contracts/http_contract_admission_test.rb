# frozen_string_literal: true

# Admission (ext/gyre/http/admission.h) on the wire: how many requests run, the queue before
# them, its bounds, and what becomes of clients that leave it.

require "test_helper"
require "http/contract"

# An app whose requests run until they are let go, by their path.
class GatedApp
  attr_reader :begun, :most

  def initialize
    @gates = Hash.new { |hash, path| hash[path] = Thread::Queue.new }
    @begun = []
    @running = @most = 0
  end

  def call(env)
    @begun << (path = env["PATH_INFO"])
    @running += 1
    @most = [@most, @running].max
    @gates[path].pop
    [200, {}, [path + env["rack.input"].read.to_s]]
  ensure
    @running -= 1
  end

  def let_go(*paths) = paths.each { |path| @gates[path] << true }
end

module HTTPAdmissionContract
  include GyreTest::HTTPServing

  def waiting(served, count)
    eventually(what: "#{count} waiting requests") { served.stats[:waiting] == count }
  end

  def occupy(served, app, path = "/first")
    client = connect(served).request("GET #{path} HTTP/1.1")
    eventually { app.begun.include?(path) }
    client
  end

  # An app with one place, which its first request has.
  def with_first(limits: {}, **options)
    app = GatedApp.new
    serve(app, limits: { requests_limit: 1, **limits }, **options) { |served| yield served, app, occupy(served, app) }
  end

  def in_queue(served, *paths)
    before = served.stats[:waiting]
    paths.map.with_index(1) do |path, index|
      client = connect(served).request("GET #{path} HTTP/1.1")
      waiting(served, before + index)
      client
    end
  end

  def test_requests_beyond_the_limit_wait_without_a_fiber_and_run_in_their_order
    with_first do |served, app, first|
      clients = [first, *in_queue(served, "/a", "/b", "/c")]
      assert_equal [1, 3, 3, 0], served.stats.values_at(:running, :waiting, :waited, :shed)
      app.let_go("/c", "/b", "/a", "/first")
      assert_equal %w[/first /a /b /c], clients.map { |client| client.response.body }
      assert_equal [%w[/first /a /b /c], 1], [app.begun, app.most]
      eventually { served.stats.values_at(:running, :waiting) == [0, 0] }
    end
  end

  # Such as an action of a cable.
  def test_other_work_waits_among_the_requests
    with_first do |served, app, first|
      work = work(served) { app.begun << "work" }
      waiting(served, 1)
      later = in_queue(served, "/later").first
      app.let_go("/first", "/later")
      assert_equal %w[/first /later], [first, later].map { |client| client.response.body }
      assert_equal [true, %w[/first work /later], 1], [work.pop, app.begun, app.most]
      eventually { served.used[:places].zero? }
    end
  end

  def test_work_that_is_stopped_in_the_queue_gives_its_place_to_the_next
    with_first do |served, app, first|
      work = work(served) { app.begun << "work" }
      waiting(served, 1)
      later = in_queue(served, "/later").first
      served.on_loop { Fiber.scheduler.fiber_interrupt(@fiber, Gyre::Stop.new("enough")) }
      assert_kind_of Gyre::Stop, work.pop
      app.let_go("/first", "/later")
      assert_equal %w[/first /later], [first, later].map { |client| client.response.body }
      eventually { served.used[:places].zero? }
    end
  end

  def test_work_that_waits_too_long_or_finds_the_queue_full_runs_all_the_same
    [{ queue_timeout_s: 0.05 }, { queue_limit: 0 }].each do |limits|
      with_first(limits: limits) do |served, app, first|
        work = work(served) { app.begun << "work" }
        assert_equal [true, %w[/first work], 1], [work.pop, app.begun, served.used[:places]]
        app.let_go("/first")
        assert_equal "/first", first.response.body
        eventually { served.used[:places].zero? }
      end
    end
  end

  # Does work in a fiber of the loop. Returns a queue that gets true at the end, or an exception.
  def work(served, &block)
    result = Thread::Queue.new
    served.on_loop do
      @fiber = Fiber.schedule do
        served.server.with_place(&block)
        result << true
      rescue Gyre::Stop => stop
        result << stop
      end
    end
    result
  end

  # Of measurements that /metrics has.
  def test_the_time_in_the_queue_is_measured_and_part_of_the_requests_own
    with_first do |served, app, first|
      clients = [first, *in_queue(served, "/a")]
      assert_equal 0, served.server.measurements["waits"]["counts"].sum
      sleep 0.03 # at least so long is what is asserted
      app.let_go("/first", "/a")
      clients.each(&:response)
      eventually { served.server.measurements["durations"]["counts"].sum == 2 }
      measured = served.server.measurements
      assert_equal 1, measured["waits"]["counts"].sum
      assert_operator measured["waits"]["sum_s"], :>=, 0.03
      assert_operator measured["durations"]["sum_s"], :>=, 0.06
    end
  end

  def test_beyond_the_queue_it_is_503_at_once_with_retry_after
    with_first(limits: { queue_limit: 1 }) do |served, app, first|
      second, = in_queue(served, "/a")
      response = (refused = connect(served)).get("GET /b HTTP/1.1")
      assert_equal [503, "1", connection_close], [response.status, response["retry-after"], response["connection"]]
      assert refused.ended? unless http2?
      app.let_go("/first", "/a")
      assert_equal [200, 200], [first, second].map { |client| client.response.status }
      assert_equal [1, 1], served.stats.values_at(:waited, :shed)
    end
  end

  def test_without_a_queue_it_is_503_at_once
    with_first(limits: { queue_limit: 0 }) do |served, app, first|
      assert_equal 503, get(served).status
      app.let_go("/first")
      assert_equal 200, first.response.status
    end
  end

  def test_a_request_that_waits_too_long_gets_503_and_the_app_never_sees_it
    with_first(limits: { queue_timeout_s: 0.05 }, log_accesses: true) do |served, app, first|
      clients = Array.new(3) { |index| connect(served).request("GET /late#{index} HTTP/1.1") }
      clients.each { |client| assert_equal [503, "1"], [client.response.then { |it| [it.status, it["retry-after"]] }].flatten }
      app.let_go("/first")
      assert_equal 200, first.response.status
      assert_equal [%w[/first], 3], [app.begun, served.stats[:shed]]
      assert_equal ["/late0", 503], served.accesses.first.then { |env, status| [env["REQUEST_URI"], status] }
    end
  end

  def test_a_client_that_resets_its_connection_is_taken_out_of_the_queue
    with_first(limits: { queue_limit: 2 }) do |served, app, first|
      gone, last = in_queue(served, "/gone", "/last")
      gone.reset
      waiting(served, 1)
      app.let_go("/first", "/last")
      assert_equal [200, 200], [first, last].map { |client| client.response.status }
      assert_equal %w[/first /last], app.begun
    end
  end

  def test_a_client_that_has_ended_its_side_comes_last_and_is_the_first_to_make_room
    return if tls? # its end is the connection's

    with_first(limits: { queue_limit: 3 }) do |served, app, first|
      ended, other, = in_queue(served, "/ended", "/other")
      [ended, other].each { |client| client.socket.shutdown(:WR) }
      living, = in_queue(served, "/living")
      hold(served) { nil } # their ends were reported by then
      newest = connect(served).request("GET /newest HTTP/1.1")
      assert_equal 503, ended.response.status
      app.let_go("/first", "/living", "/newest", "/other")
      assert_equal [200] * 4, [first, living, newest, other].map { |client| client.response.status }
      assert_equal %w[/first /living /newest /other], app.begun
    end
  end

  def test_a_slow_client_of_an_unread_body_holds_no_place
    serve(->(_env) { [200, {}, ["x"]] }, limits: { requests_limit: 1, queue_limit: 0, body_ahead_bytes_limit: 0 }) do |served|
      slow = connect(served).request("POST / HTTP/1.1", "a", content_length: 10)
      assert_equal 200, slow.response.status
      assert_equal 200, get(served).status
    end
  end

  def test_files_wait_for_no_place
    app = GatedApp.new
    asked = []
    files = ->(path) { asked << path and path == "/file" }
    serve(->(env) { env["PATH_INFO"] == "/file" ? [200, {}, ["a file"]] : app.call(env) },
      limits: { requests_limit: 1, queue_limit: 0 }, exempt: files) do |served|
      client = occupy(served, app)
      3.times { assert_equal "a file", get(served, "GET /file HTTP/1.1").body }
      assert_equal 200, get(served, "HEAD /file HTTP/1.1").status
      assert_equal [503, 503], ["POST /file HTTP/1.1", "GET /other HTTP/1.1"].map { |line| get(served, line).status }
      assert_equal %w[/file /file /file /file /other], asked
      app.let_go("/first")
      assert_equal "/first", client.response.body
    end
  end

  def test_a_question_about_files_that_fails_is_reported_and_the_request_waits
    with_first(exempt: ->(_path) { raise "no such disk" }) do |served, app, client|
      later = in_queue(served, "/file").first
      app.let_go("/first", "/file")
      assert_equal %w[/first /file], [client, later].map { |each| each.response.body }
    end
  end

  def test_a_server_that_drains_serves_what_waits
    with_first do |served, app, first|
      clients = [first, *in_queue(served, "/a", "/b")]
      served.on_loop { served.server.drain }
      app.let_go("/first", "/a", "/b")
      assert_equal %w[/first /a /b], clients.map { |client| client.response.body }
      assert(clients.all?(&:ended?))
    end
  end

  def test_a_server_that_closes_drops_what_waits
    with_first do |served, _app, first|
      clients = [first, *in_queue(served, "/a", "/b")]
      served.on_loop { served.server.shutdown(0) }
      assert(clients.all? { |client| client.rest.empty? })
      assert_equal 0, served.stats[:waiting]
    end
  end

  def test_an_app_that_raises_gives_its_place_back
    serve(->(_env) { raise "no" }, limits: { requests_limit: 1, queue_limit: 0 }) do |served|
      3.times { assert_equal 500, get(served).status }
      expect_errors(served, /no/, /no/, /no/)
    end
  end

  def test_two_hundred_requests_on_five_connections_of_a_pool_are_two_hundred_responses
    free = 5
    all_came = Thread::Queue.new
    app = lambda do |_env|
      raise "the pool is empty" if free.zero?

      free -= 1
      all_came.pop
      sleep(0.001)
      free += 1
      [200, {}, ["ok"]]
    end
    serve(app, limits: { requests_limit: 5 }, backlog: 256) do |served|
      clients = Array.new(200) { connect(served).request }
      eventually { served.stats.values_at(:running, :waiting) == [5, 195] }
      all_came.close
      assert_equal [200], clients.map { |client| client.response.status }.uniq
      assert_equal 195, served.stats[:waited]
    end
  end

  # Pipelined requests, heads in parts, chunks.
  module HTTP1
    def test_the_body_of_a_waiting_request_may_come_before_or_after_its_turn
      with_first(limits: { body_ahead_bytes_limit: 0 }) do |served, app, first|
        whole = connect(served).request("POST /whole HTTP/1.1", "abc", content_length: 3)
        waiting(served, 1)
        parts = connect(served).write("POST /parts HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n")
        parts.write("\r\nabc")
        waiting(served, 2)
        app.let_go("/first", "/whole", "/parts")
        parts.write("def")
        assert_equal %w[/first /wholeabc /partsabcdef], [first, whole, parts].map { |client| client.response.body }
      end
    end

    def test_a_pipelined_request_waits_behind_those_of_other_connections
      with_first do |served, app, client|
        client.request("GET /pipelined HTTP/1.1")
        other, = in_queue(served, "/other")
        app.let_go("/pipelined", "/other", "/first")
        assert_equal %w[/first /other /pipelined], [client, other, client].map { |each| each.response.body }
        assert_equal %w[/first /other /pipelined], app.begun
      end
    end

    def test_responses_without_an_end_hold_no_place
      gate = Thread::Queue.new
      app = lambda do |env|
        case env["PATH_INFO"]
        when "/events" then [200, { "content-type" => "text/event-stream" }, ->(stream) { gate.pop && (stream << "data: 1\n\n").close }]
        when "/hijack" then [200, { "rack.hijack" => ->(io) { io.write(gate.pop) && io.close } }, []]
        else [200, {}, ["hello"]]
        end
      end
      serve(app, limits: { requests_limit: 1, queue_limit: 0 }) do |served|
        %w[/events /hijack].each do |path|
          client = connect(served).request("GET #{path} HTTP/1.1")
          client.take_through("\r\n\r\n")
          eventually { get(served).status == 200 }
          gate << "data: 1\n\n"
          assert_includes client.rest, "data: 1" if path == "/hijack"
          client.take_through("0\r\n\r\n") if path == "/events"
        end
        assert_equal 200, get(served).status
      end
    end
  end
end

GyreTest::HTTPContract.run(HTTPAdmissionContract, backends: GyreTest::Engines::NATIVE.first(1))
