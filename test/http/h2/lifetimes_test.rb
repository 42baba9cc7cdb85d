# frozen_string_literal: true

# How long things of HTTP/2 live: exchanges that outlast their streams, fibers that are cancelled in
# the middle of a write, threads, forks, the collector's moves, and a server that ends while streams
# are open.

require "test_helper"
require "support/engines"
require "http/h2/serving"
require "http/h2/apart"

module H2Lifetimes
  include GyreTest::H2Serving
  include GyreTest::H2Apart

  STREAMING = ->(stream) { loop { stream.write("x" * 1000) && sleep(0.001) } }

  # What the tests of one exchange may call when its stream is over.
  CALLS = {
    read_body: ->(exchange) { exchange.read_body(10) }, write_body: ->(exchange) { exchange.write_body("x") },
    write_head: ->(exchange) { exchange.write_head(200, {}, nil) }, write_interim: ->(exchange) { exchange.write_interim(103, {}) },
    write_response: ->(exchange) { exchange.write_response(200, {}, []) }, finish_body: :finish_body.to_proc, trailers: :trailers.to_proc,
    close: :close.to_proc, reset: :reset.to_proc, head_sent?: :head_sent?.to_proc,
    closed?: :closed?.to_proc, hijacked?: :hijacked?.to_proc, expects_continue?: :expects_continue?.to_proc, head_only?: :head_only?.to_proc,
    body_bytes_sent: :body_bytes_sent.to_proc, hijack: :hijack.to_proc,
    write_file: ->(exchange) { File.open(__FILE__) { |file| exchange.write_file(file, 0, 10) } }
  }

  def outcome(call, exchange)
    call.call(exchange)
  rescue IOError, SystemCallError, Gyre::HTTP::RequestError, Gyre::HTTP::RequestCut => error
    error.class
  end

  def test_an_exchange_that_is_kept_after_its_end_touches_nothing
    kept = Thread::Queue.new
    app = lambda do |env|
      kept << env["rack.early_hints"]
      [200, {}, [env["rack.input"].read.to_s]]
    end
    serve(app) do |served|
      client = connect(served)
      2.times { assert_equal "x", client.post("/", "x").body }
      reset = client.open("POST /").write("y")
      exchanges = Array.new(3) { kept.pop }
      reset.reset
      eventually { served.stats[:running].zero? }
      outside = exchanges.map { |exchange| CALLS.transform_values { |call| outcome(call, exchange) } } # from this thread
      inside = exchanges.map { |exchange| CALLS.transform_values { |call| served.on_loop { outcome(call, exchange) } } }
      assert_equal "z", client.post("/", "z").body
      client.close
      eventually { served.stats[:connections].zero? }
      GC.start
      [outside, inside, exchanges.map { |exchange| CALLS.transform_values { |call| outcome(call, exchange) } }].flatten.each do |outcomes|
        assert_equal true, outcomes[:closed?]
        %i[write_body write_head finish_body].each { |name| assert_includes [Errno::EPIPE, IOError], outcomes[name], name.to_s }
      end
      served.errors.clear
    end
  end

  def test_fibers_that_are_interrupted_in_the_middle_of_a_write
    fibers = Thread::Queue.new
    ended = Thread::Queue.new
    trouble = Class.new(StandardError)
    app = lambda do |env|
      next [200, {}, ["hello"]] if env["PATH_INFO"] == "/"

      fibers << Fiber.current
      [200, {}, lambda do |stream|
        stream.write("x" * 10_000_000)
      ensure
        ended << $!.class
      end]
    end
    serve(app) do |served|
      client = connect(served)
      10.times do
        stream = client.open("GET /much", end_stream: true)
        fiber = fibers.pop
        stream.take(100)
        served.on_loop { served.scheduler.fiber_interrupt(fiber, trouble.new("cancelled")) }
        assert_equal trouble, ended.pop
        assert_equal :internal_error, stream.failure
      end
      assert_equal "hello", client.get.body
      served.errors.clear
    end
  end

  def test_an_app_reads_and_writes_in_threads_of_its_own
    app = lambda do |env|
      body = Thread.new { env["rack.input"].read }.value
      [200, {}, lambda do |stream|
        Array.new(4) { |number| Thread.new { 10.times { stream.write(number.to_s * 1000) } } }.each(&:join)
        Thread.new { stream.write(body) && stream.close }.join
      end]
    end
    serve(app) do |served|
      client = connect(served)
      streams = Array.new(5) { |number| client.open("POST /").write("end #{number}").finish }
      streams.each_with_index do |stream, number|
        body = stream.response.body
        assert_equal "end #{number}", body.slice!(-5..)
        assert_equal({ "0" => 10_000, "1" => 10_000, "2" => 10_000, "3" => 10_000 }, body.each_char.tally)
      end
    end
  end

  # The client is the parent's: for the child it has not left.
  def test_a_forked_child_goes_on_and_its_clients_count_as_present
    app = lambda do |env|
      gone = env["gyre.client_gone"].client_gone
      child = fork { exit!(sleep(0.001) && gone.pending? ? 0 : 2) }
      [200, {}, [Process.wait2(child).last.exitstatus.to_s]]
    end
    serve(app, cancel_when_client_gone: true) { |served| assert_equal "0", get(served).body }
  end

  def test_a_forked_child_of_an_app_ends_no_stream
    app = lambda do |env|
      Process.wait(fork { exit!(0) }) if env["PATH_INFO"] == "/fork"
      [200, {}, ["hello"]]
    end
    serve(app) do |served|
      clients = Array.new(2) { connect(served) }
      open = clients.map { |client| client.open("POST /") }
      %w[/ /fork /].each { |path| clients.each { |client| assert_equal "hello", client.get("GET #{path}").body } }
      open.each { |stream| assert_equal "hello", stream.finish.response.body }
    end
  end

  def test_objects_may_be_moved_while_streams_are_open
    app = lambda do |env|
      body = env["rack.input"].read
      [200, { "x-length" => body.bytesize.to_s }, Enumerator.new { |parts| 3.times { |number| parts << "#{number}#{body}" } }]
    end
    serve(app) do |served|
      client = connect(served)
      streams = Array.new(20) { |number| client.open("POST /#{number}").write("begun #{number}, ") }
      client.synchronize
      GC.start
      move_objects
      streams.each { |stream| stream.write("done").finish }
      streams.each_with_index do |stream, number|
        text = "begun #{number}, done"
        assert_equal "0#{text}1#{text}2#{text}", stream.response.body
      end
    end
  end

  # In a small process, where a collection is quick.
  def test_streams_with_the_collector_at_each_allocation
    serve_apart do |server|
      client = server.connect
      assert_equal "hello", client.get.body
      client.get("GET /stress")
      streams = Array.new(3) { |number| client.open("POST /echo/#{number}", x: "y").write("body").finish(number.odd? ? [%w[a b]] : nil) }
      client.open("POST /echo").write("cut").reset
      assert_equal ["/echo/0body", "/echo/1body", "/echo/2body"], (streams.map { |stream| stream.response.body })
    ensure
      client&.close
    end
  end

  # --- the server's end ---

  def test_a_drain_lets_open_streams_finish_and_takes_no_more
    go = Thread::Queue.new
    app = lambda do |env|
      go.pop if env["PATH_INFO"] == "/wait"
      [200, {}, ["hello ", env["rack.input"].read].each]
    end
    serve(app) do |served|
      client = connect(served)
      idle = connect(served)
      assert_equal "hello ", idle.get.body
      waiting = client.open("GET /wait", end_stream: true)
      uploading = client.open("POST /").write("up")
      client.synchronize
      eventually { served.stats[:running] == 2 }
      served.on_loop { served.server.drain }
      client.wait { client.goaway }
      assert_equal :no_error, client.goaway.error
      assert_equal :no_error, idle.failure
      go << true
      uploading.write("loaded").finish
      assert_equal ["hello ", "hello uploaded"], ([waiting, uploading].map { |stream| stream.response.body })
      assert_equal :no_error, client.failure
      assert_equal uploading.id, client.goaway.last_stream
      eventually { served.stats[:connections].zero? }
    end
  end

  def test_a_shutdown_ends_streams_that_do_not_end
    ended = Thread::Queue.new
    app = lambda do |env|
      next [200, {}, STREAMING] if env["PATH_INFO"] == "/stream"

      sleep(60)
    ensure
      ended << true
    end
    serve(app) do |served|
      client = connect(served)
      streams = %w[/stream /sleep].map { |path| client.open("GET #{path}", end_stream: true) }
      streams[0].take(1000)
      served.on_loop { served.server.shutdown(0.05) }
      2.times { ended.pop }
      client.failure
      assert streams.all?(&:over?)
      served.errors.clear
    end
  end

  def test_a_close_ends_everything_at_once
    serve(->(env) { env["PATH_INFO"] == "/" ? [200, {}, STREAMING] : sleep(60) }) do |served|
      client = connect(served)
      stream = client.open("GET /", end_stream: true)
      stream.take(1000)
      client.open("GET /sleep", end_stream: true)
      client.open("POST /sleep").write("x")
      client.synchronize
      served.on_loop { served.server.close }
      client.failure
      eventually { served.stats[:connections].zero? }
      served.on_loop { served.server.interrupt(IOError.new("over")) if served.server.respond_to?(:interrupt) }
      served.errors.clear
    end
  end

  def test_a_hundred_streams_and_more_on_one_connection
    serve(->(env) { sleep(0.001).then { [200, {}, [env["PATH_INFO"]]] } }) do |served|
      client = connect(served)
      client.greet
      most = client.settings.fetch(:max_concurrent_streams)
      10.times do |round|
        streams = Array.new(most) { |number| client.open("GET /#{round}/#{number}", end_stream: true) }
        streams.each_with_index { |stream, number| assert_equal "/#{round}/#{number}", stream.response.body }
      end
      eventually { served.stats[:running].zero? }
      assert_equal 10 * most, served.stats[:requests]
    end
  end
end

GyreTest::Engines.test_case("H2LifetimesTest", backends: GyreTest::H2Serving::BACKENDS.first(1)) { include H2Lifetimes }
