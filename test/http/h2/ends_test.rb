# frozen_string_literal: true

# The ends of an HTTP/2 connection, of which no request may be lost: what a GOAWAY promises, clients
# that have ended their side or still take their last response, handlers that end the program.

require "test_helper"
require "support/engines"
require "http/h2/serving"

module H2Ends
  include GyreTest::H2Serving

  H2 = GyreTest::H2
  LARGE = "x" * 60_000

  # Serves an app that notes each request, as it begins and with its body. /wait waits for the gate,
  # /large responds with that body.
  def with_gate(**options, &block)
    gate = Thread::Queue.new
    begun = Thread::Queue.new
    app = lambda do |env|
      begun << env["PATH_INFO"]
      body = env["rack.input"].read.to_s
      begun << body unless body.empty?
      gate.pop if env["PATH_INFO"] == "/wait"
      [200, {}, [env["PATH_INFO"] == "/large" ? LARGE : "hello", body]]
    end
    serve(app, **options) { |served| block.call(served, gate, begun) }
  ensure
    gate&.close
  end

  # The GOAWAY waits for room in the socket, up to write_timeout_s.
  def assert_few_turns_before_the_goaway(**limits)
    with_gate(limits: limits, buffers: 4096) do |served, _gate, begun|
      client = connect(served, settings: { initial_window_size: 1 << 20 })
      client.write(H2.window_update(0, 1 << 20))
      client.open("GET /large", end_stream: true)
      assert_equal "/large", begun.pop
      yield client if block_given?
      sleep(0.3)
      turns = served.scheduler.stats[:turns]
      sleep(0.3)
      assert_operator served.scheduler.stats[:turns] - turns, :<, 10
    end
  end

  def test_an_idle_client_that_takes_nothing_is_not_looked_at_again_and_again
    assert_few_turns_before_the_goaway(keep_alive_timeout_s: 0.1)
  end

  def test_a_client_with_a_late_head_that_takes_nothing_is_not_looked_at_again_and_again
    assert_few_turns_before_the_goaway(head_timeout_s: 0.1) do |client|
      client.open_fields(H2.request, end_headers: false)
    end
  end

  # --- what a GOAWAY promises (RFC 9113, section 6.8) ---

  # The GOAWAY waits for room in the socket, and names the stream that was the last one as it was
  # queued.
  def test_no_stream_beyond_a_goaway_that_waits_is_begun
    with_gate(limits: { keep_alive_requests_limit: 2 }, buffers: 8192) do |served, _gate, begun|
      client = connect(served, settings: { initial_window_size: 1 << 20 })
      client.write(H2.window_update(0, 1 << 20))
      first = client.open("GET /large", end_stream: true)
      assert_equal "/large", begun.pop
      last = client.open("POST /last")
      assert_equal "/last", begun.pop
      late = client.open("GET /late", end_stream: true)
      last.write("behind it", end_stream: true)
      assert_equal "behind it", begun.pop
      assert_equal [LARGE, "hellobehind it"], ([first, last].map { |stream| stream.response.body })
      assert_equal :no_error, client.failure
      assert_equal last.id, client.goaway.last_stream
      assert_empty(late.frames.map(&:type) - [:rst_stream])
      assert_empty begun
    end
  end

  # A client's GOAWAY is about streams of the server's, of which there are none.
  def test_a_client_that_sends_goaway_gets_its_responses_and_the_end
    with_gate(limits: { linger_timeout_s: 0.05 }) do |served, gate, begun|
      client = connect(served)
      waiting = client.open("GET /wait", end_stream: true)
      upload = client.open("POST /last").write("before ")
      2.times { begun.pop }
      client.write(H2.goaway).synchronize
      assert_equal "hellobefore after", upload.write("after", end_stream: true).response.body
      gate.close
      assert_equal "hello", waiting.response.body
      assert_equal :no_error, client.failure
      eventually { served.stats[:connections].zero? }
    end
  end

  def test_a_client_that_sends_goaway_without_streams_is_let_go
    with_gate(limits: { linger_timeout_s: 0.05 }) do |served, _gate, _begun|
      client = connect(served)
      assert_equal "hello", client.get.body
      client.write(H2.goaway(0, :internal_error, "debug data"))
      assert_equal :no_error, client.failure
      eventually { served.stats[:connections].zero? }
      assert_equal "hello", connect(served).get.body
    end
  end

  # --- clients that have ended their side ---

  def test_a_client_that_has_ended_its_side_gets_its_responses
    with_gate do |served, gate, begun|
      client = connect(served)
      streams = Array.new(3) { client.open("GET /wait", end_stream: true) }
      streams << client.open("POST /wait").write("whole").finish
      client.synchronize.finish
      4.times { assert_equal "/wait", begun.pop }
      assert_equal :no_error, client.wait_frame(:goaway).error # it has seen the end before the responses
      gate.close
      assert_equal %w[hello hello hello hellowhole], (streams.map { |stream| stream.response.body })
      assert_equal :no_error, client.failure
      eventually { served.stats[:connections].zero? }
    end
  end

  def test_a_client_that_has_ended_its_side_in_a_body_gets_a_response_and_the_app_an_error
    errors = Thread::Queue.new
    app = lambda do |env|
      env["rack.input"].read
      [200, {}, []]
    rescue EOFError => error
      errors << error.message
      [400, {}, ["cut"]]
    end
    serve(app) do |served|
      client = connect(served)
      uploading = client.open("POST /").write("a part")
      client.synchronize
      client.write(H2.headers(3, GyreTest::HPACK.encode(H2.request)[0, 9], end_headers: false)).finish
      assert_equal "cut", uploading.response.body
      assert_match(/left before the end/, errors.pop)
      client.failure
      eventually { served.stats[:connections].zero? && served.stats[:running].zero? }
    end
  end

  def test_a_client_that_is_gone_whole_is_noticed_by_its_end
    gone = Thread::Queue.new
    app = lambda do |env|
      gone << env["gyre.client_gone"].client_gone.wait
      [200, {}, []]
    end
    serve(app) do |served|
      client = connect(served)
      client.open("GET /", end_stream: true)
      client.synchronize
      eventually { served.stats[:running] == 1 }
      client.take_in # else the close would be a reset
      client.close
      assert_equal true, gone.pop
      eventually { served.stats[:connections].zero? }
    end
  end

  # --- handlers that end the program ---

  def test_an_exception_that_would_end_the_program_leaves_its_connection_in_order
    app = lambda do |env|
      raise Interrupt, "enough" if env["PATH_INFO"] == "/interrupt"
      [200, {}, ["hello"]]
    end
    served = GyreTest::HTTPServing::Served.new(TCPServer.new("127.0.0.1", 0), nil, nil, tls?)
    loops = Thread::Queue.new
    options = tls? ? { tls: { served.listener => Gyre::TLS.server(**GyreTest::H2Serving.identity) } } : {}
    thread = Thread.new do
      Fiber.set_scheduler(scheduler = Gyre::Scheduler.new)
      Fiber.schedule do
        served.server = Gyre::HTTP::Server.new(app, listeners: [served.listener], log: served, **options).start
        loops << :began
        served.run_jobs
        served.server.close
      end
      begin
        scheduler.run
      rescue Interrupt
        loops << :interrupted
        retry
      end
    ensure
      Fiber.set_scheduler(nil)
    end
    assert_equal :began, loops.pop
    @clients = []
    client = connect(served)
    client.greet
    streams = %w[/interrupt / /].map { |path| client.open("GET #{path}", end_stream: true) }
    assert_equal :interrupted, loops.pop
    assert_equal %w[hello hello], (streams.last(2).map { |stream| stream.response.body })
    assert_equal "hello", client.get.body
    client.write(H2.goaway)
    client.failure
    client.close
    eventually { served.stats[:connections].zero? }
  ensure
    served.finish
    thread.join
    served.listener.close
  end
end

GyreTest::Engines.test_case("H2EndsTLSTest", backends: GyreTest::H2Serving::BACKENDS.first(1)) do
  include H2Ends

  def tls? = true
end

GyreTest::Engines.test_case("H2EndsTest", backends: GyreTest::H2Serving::BACKENDS.first(1)) do
  include H2Ends

  # After the server's end of a connection any frame would meet a reset, and with it what is on its
  # way to the client would be lost.
  def test_a_client_that_takes_its_last_response_slowly_gets_all_of_it
    skip "the state of a socket is read from /proc" unless File.exist?("/proc/net/tcp")
    with_gate(buffers: 8192) do |served, _gate, begun|
      served.listener.setsockopt(:SOCKET, :SNDBUF, 400_000) # the server's kernel takes all of it
      client = connect(served, settings: { initial_window_size: 1 << 20 })
      client.write(GyreTest::H2.window_update(0, 1 << 20))
      stream = client.open("GET /large", end_stream: true)
      assert_equal "/large", begun.pop
      served.on_loop { served.server.drain }
      ended = /^ *\d+: \h+:#{format("%04X", served.port)} \h+:\h{4} 0[45] /
      eventually(what: "the server's end of the connection") { File.read("/proc/net/tcp").match?(ended) }
      client.write(GyreTest::H2.ping)
      assert_equal H2Ends::LARGE, stream.response.body
      assert_equal :no_error, client.failure
    end
  end
end
