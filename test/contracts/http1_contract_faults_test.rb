# frozen_string_literal: true

# What the HTTP/1 server does when apps, clients and servers fail or end: only the one at fault
# notices, and nothing is left behind. Each case runs on each native backend.

require "test_helper"
require "objspace"
require "timeout"
require "support/engines"
require "http/serving"
require "http/h2/contract"

cases = proc do
  include GyreTest::HTTPServing

  hello = ->(_env) { [200, {}, ["hello"]] }

  # --- what is beside it ---

  define_method(:test_the_end_of_another_server_of_the_same_socket_leaves_it_alone) do
    serve(hello) do |served|
      served.on_loop { Gyre::HTTP::Server.new(hello, listeners: [served.listener]).start.close }
      assert_equal 200, get(served).status
    end
  end

  # A hook raises where Ruby raises what Thread#raise sent: in the fiber that gets control.
  define_method(:test_an_exception_that_comes_while_a_handler_gives_control_back_is_not_swallowed) do
    trouble = Class.new(StandardError)
    listener = TCPServer.new("127.0.0.1", 0)
    armed = false
    thread = Thread.new do
      Fiber.set_scheduler(scheduler = Gyre::Scheduler.new)
      driver = Fiber.current
      raiser = TracePoint.new(:fiber_switch) { (armed = false) || raise(trouble) if armed && Fiber.current.equal?(driver) }
      server = Gyre::HTTP::Server.new(->(_env) { (armed = true) && sleep(0.01) }, listeners: [listener]).start
      raiser.enable { assert_raises(trouble) { scheduler.run } }
    ensure
      server&.close
      Fiber.set_scheduler(nil)
    end
    TCPSocket.open("127.0.0.1", listener.local_address.ip_port) do |client|
      client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n")
      assert_kind_of trouble, thread.value
    end
  ensure
    listener&.close
  end

  # --- the app ---

  define_method(:test_no_second_head_is_sent_when_the_conversion_of_a_status_sends_one) do
    error = nil
    app = lambda do |env|
      connection = env["rack.hijack"]
      status = Object.new
      status.define_singleton_method(:to_int) { connection.write_head(204, {}, nil).then { 200 } }
      error = assert_raises(RuntimeError) { connection.write_head(status, {}, nil) }
      hello.call(env)
    end
    serve(app) do |served|
      assert_equal 204, get(served).status
      expect_errors(served, /the head has been sent already/) # the app's own response
    end
    assert_equal "the head has been sent already", error.message
  end

  define_method(:test_an_app_that_raises_gives_a_500_and_a_trace_in_the_log) do
    raises = {
      "/standard" => -> { raise "trouble" }, "/argument" => -> { raise ArgumentError, "trouble" },
      "/load" => -> { raise LoadError, "trouble" },
      "/todo" => -> { raise NotImplementedError, "trouble" }, "/memory" => -> { raise NoMemoryError, "trouble" },
      "/deep" => -> { (deep = ->(trouble) { deep.call([trouble]) }).call(1) },
      "/exception" => -> { raise Exception, "trouble" }, # rubocop:disable Lint/RaiseException
      "/throw" => -> { throw :trouble }, "/yield" => -> { Fiber.yield(:trouble) },
      "/pipe" => -> { raise Errno::EPIPE, "trouble" },
      "/eof" => -> { raise EOFError, "trouble" }, "/protocol" => -> { raise Gyre::ProtocolError.new("trouble", 418) }
    }
    serve(->(env) { raises.fetch(env["PATH_INFO"]).call }) do |served|
      client = connect(served)
      raises.each_key do |path|
        response = client.get("GET #{path} HTTP/1.1")
        assert_equal [500, "text/plain", nil, "Internal Server Error\n"],
                     [response.status, response["content-type"], response["connection"], response.body], path
        trace = %w[/deep /yield].include?(path) ? "" : ": unhandled in the app: .*faults_test\\.rb:\\d+.*trouble"
        expect_errors(served, /GET #{path}#{trace}/m)
      end
    end
  end

  define_method(:test_an_app_that_raises_in_its_body_cuts_the_response_so_that_the_client_sees_it) do
    app = lambda do |env|
      body = Enumerator.new do |parts|
        parts << "begun"
        raise "in the body"
      end
      case env["PATH_INFO"]
      when "/length" then [200, { "content-length" => "100" }, body]
      when "/call"   then [200, {}, ->(stream) { body.each { |part| stream << part } }]
      else [200, {}, body]
      end
    end
    serve(app) do |served|
      %w[/each /call /length].each do |path|
        client = connect(served)
        client.request("GET #{path} HTTP/1.1")
        head = client.take_through("\r\n\r\n")
        assert_equal(path == "/length" ? "begun" : "5\r\nbegun\r\n", client.rest, head)
        expect_errors(served, /in the body/)
      end
      old = connect(served)
      old.write("GET /each HTTP/1.0\r\n\r\n")
      assert old.reset?, "the end of a 1.0 body is the end of the connection, so a cut must look different"
      expect_errors(served, /in the body/)
    end
  end

  define_method(:test_a_write_that_was_interrupted_in_the_middle_is_followed_by_nothing) do
    interrupted = Thread::Queue.new
    app = lambda do |_env|
      [200, {}, lambda do |stream|
        begin
          Timeout.timeout(0.05) { stream.write("A" * 20_000_000) }
        rescue Timeout::Error
          interrupted << true
        end
        stream.write("tail")
        stream.close
      end]
    end
    serve(app, buffers: 65_536) do |served|
      client = connect(served)
      client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 2)
      interrupted.pop
      refute_includes client.rest, "tail"
    end
  end

  define_method(:test_a_client_that_half_closes_gets_its_response_although_its_body_is_not_read) do
    serve(hello) do |served|
      5.times do
        client = connect(served)
        client.write("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 90000\r\n\r\n", "x" * 90_000)
        client.socket.close_write
        assert_equal "hello", client.response.body
      end
    end
  end

  define_method(:test_an_app_that_raises_after_the_end_of_its_stream_harms_nobody) do
    app = lambda do |_env|
      [200, {}, lambda do |stream|
        stream.write("whole")
        stream.close
        raise "too late"
      end]
    end
    serve(app) do |served|
      assert_equal "whole", connect(served).get.body
      expect_errors(served, /too late/)
    end
  end

  define_method(:test_a_body_longer_than_its_content_length_is_cut_there) do
    serve(->(_env) { [200, { "content-length" => "4" }, %w[abc def ghi].each] }) do |served|
      client = connect(served)
      response = client.get
      assert_equal "abcd", response.body
      assert client.ended?
      expect_errors(served, /longer.*LengthError/m)
    end
  end

  define_method(:test_a_body_shorter_than_its_content_length_ends_the_connection) do
    bodies = { "/each" => ["abc"].each, "/call" => ->(stream) { stream.write("abc") } }
    serve(->(env) { [200, { "content-length" => "4" }, bodies.fetch(env["PATH_INFO"])] }) do |served|
      bodies.each_key do |path|
        client = connect(served)
        client.request("GET #{path} HTTP/1.1")
        client.take_through("\r\n\r\n")
        assert_equal "abc", client.rest
        expect_errors(served, /shorter.*LengthError/m)
      end
    end
  end

  define_method(:test_an_array_with_a_wrong_content_length_is_a_500) do
    serve(->(env) { [200, { "content-length" => env["QUERY_STRING"] }, ["abc"]] }) do |served|
      client = connect(served)
      %w[2 4].each do |length|
        assert_equal 500, client.get("GET /?#{length} HTTP/1.1").status
        expect_errors(served, /LengthError/)
      end
      assert_equal 200, client.get("GET /?3 HTTP/1.1").status
    end
  end

  define_method(:test_exit_in_an_app_is_the_end_of_its_request_only) do
    finished = Thread::Queue.new
    app = lambda do |env|
      env["rack.response_finished"] << ->(*, error) { finished << error.class }
      exit(7) if env["PATH_INFO"] == "/exit"
      [200, {}, ["hello"]]
    end
    serve(app) do |served|
      client = connect(served)
      assert_equal [500, 200], [client.get("GET /exit HTTP/1.1").status, client.get.status]
      assert_equal [SystemExit, NilClass], [finished.pop, finished.pop]
      expect_errors(served, %r{GET /exit: unhandled in the app: .*exit \(SystemExit\)})
    end
  end

  define_method(:test_apps_wait_side_by_side) do
    waiting = 0
    app = lambda do |_env|
      waiting += 1
      sleep 0.001 until waiting == 50 # each for all the others
      [200, {}, ["slept"]]
    end
    serve(app) do |served|
      clients = Array.new(50) { connect(served).request }
      clients.each { |client| assert_equal "slept", client.response.body }
    end
  end

  define_method(:test_apps_may_use_fibers_of_their_own) do
    app = lambda do |_env|
      inner = Fiber.new do
        sleep 0.01
        Fiber.yield "a"
        sleep 0.01
        "b"
      end
      outer = Enumerator.new do |numbers|
        sleep 0.01
        numbers << "c"
        sleep 0.01
        numbers << "d"
      end
      lazily = Enumerator.new do |parts|
        parts << inner.resume << inner.resume
        parts << outer.next << outer.next
      end
      [200, {}, lazily]
    end
    serve(app) do |served|
      clients = Array.new(5) { connect(served).request }
      clients.each { |client| assert_equal "abcd", client.response.body }
    end
  end

  define_method(:test_what_an_app_leaves_in_its_fiber_does_not_reach_the_next_request) do
    app = lambda do |_env|
      seen = Thread.current[:left_behind].inspect
      Thread.current[:left_behind] = true
      [200, {}, [seen]]
    end
    serve(app) do |served|
      3.times { assert_equal "nil", get(served).body }
    end
  end

  define_method(:test_apps_may_write_their_stream_from_a_thread) do
    app = lambda do |_env|
      [200, {}, lambda do |stream|
        Thread.new { 3.times { |number| stream.write(number.to_s) } }.join
        stream.close
      end]
    end
    serve(app) { |served| assert_equal "012", get(served).body }
  end

  # --- the client ---

  define_method(:test_a_client_that_goes_away_in_its_response_ends_only_that) do
    done = Thread::Queue.new
    app = lambda do |env|
      env["rack.response_finished"] << ->(_env, _status, _headers, error) { done << error.class }
      case env["PATH_INFO"]
      when "/each" then [200, {}, Enumerator.new { |parts| loop { parts << ("x" * 50_000) } }]
      when "/call" then [200, {}, ->(stream) { loop { stream.write("x" * 50_000) } }]
      when "/big"  then [200, {}, ["x" * 50_000_000]]
      else [200, {}, ["fine"]]
      end
    end
    serve(app) do |served|
      %w[/each /call /big].product(%i[close reset]).each do |path, ending|
        client = connect(served)
        client.request("GET #{path} HTTP/1.1")
        client.take(1000)
        client.public_send(ending)
        assert_includes [Errno::EPIPE, Errno::ECONNRESET], done.pop, "#{path} #{ending}"
      end
      assert_equal "fine", get(served).body
      eventually { served.stats.values_at(:connections, :running) == [0, 0] }
    end
  end

  define_method(:test_a_client_that_goes_away_between_or_in_requests_leaves_nothing) do
    serve(hello) do |served|
      ["", "G", "GET / HTTP/1.1\r\nhost:", "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
       "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nab",
       "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab"].product(%i[close reset]).each do |bytes, ending|
        client = connect(served)
        client.write(bytes)
        client.public_send(ending)
      end
      assert_equal "hello", get(served).body
      eventually { served.stats.values_at(:connections, :running) == [0, 0] }
    end
  end

  define_method(:test_a_body_that_is_cut_off_is_an_eof_error_to_the_app_and_a_400_to_the_client) do
    called = Thread::Queue.new
    errors = Thread::Queue.new
    app = lambda do |env|
      called << true
      env["rack.input"].read
    rescue EOFError => error
      errors << error
      raise
    end
    serve(app) do |served|
      [["content-length: 10", "abc"], ["transfer-encoding: chunked", "5\r\nabc"]].each do |field, body|
        client = connect(served)
        client.write("POST / HTTP/1.1\r\nhost: a\r\n#{field}\r\n\r\n#{body}")
        client.socket.shutdown(:WR)
        assert_equal 400, client.response.status
        assert client.ended?
        assert_instance_of Gyre::HTTP::RequestCut, errors.pop
      end
      client = connect(served)
      called.clear
      client.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc")
      called.pop
      client.reset
      assert_instance_of Gyre::HTTP::RequestCut, errors.pop
    end
  end

  define_method(:test_a_fast_app_waits_for_a_slow_client) do
    made = 0
    body = Enumerator.new do |parts|
      1000.times do
        made += 1
        parts << ("x" * 100_000)
      end
    end
    serve(->(_env) { [200, {}, body] }, buffers: 200_000) do |served|
      client = connect(served)
      client.request
      client.take_through("\r\n\r\n")
      before = nil
      eventually { before == made || ((before = made) && sleep(0.05) && false) }
      assert_operator made, :<, 400, "the app ran ahead of the client"
      size = 0
      while (piece = client.chunk)
        size += piece.bytesize
      end
      assert_equal 100_000_000, size
    end
  end

  define_method(:test_a_fast_client_waits_for_a_slow_app) do
    go = Thread::Queue.new
    app = lambda do |env|
      go.pop
      size = 0
      while (piece = env["rack.input"].read(65_536))
        size += piece.bytesize
      end
      [200, {}, [size.to_s]]
    end
    serve(app, limits: { body_bytes_limit: 200_000_000 }, buffers: 200_000) do |served|
      client = connect(served)
      client.request("POST / HTTP/1.1", content_length: 100_000_000)
      piece = "x" * 100_000
      left = 100_000_000
      while client.socket.wait_writable(0.2)
        written = client.socket.write_nonblock(piece, exception: false)
        left -= written unless written == :wait_writable
      end
      assert_operator left, :>, 60_000_000, "the server took what the app did not read"
      go << true
      left -= client.socket.write(piece.byteslice(0, left)) while left.positive?
      assert_equal "100000000", client.response.body
    end
  end

  define_method(:test_a_large_stream_goes_both_ways_in_little_memory) do
    held = lambda do
      GC.start
      ObjectSpace.memsize_of_all(String)
    end
    app = lambda do |_env|
      [200, {}, lambda do |stream|
        buffer = String.new
        stream.write(buffer) while stream.read(16_384, buffer)
      end]
    end
    serve(app, limits: { body_bytes_limit: 100_000_000 }) do |served|
      client = connect(served)
      client.request("POST / HTTP/1.1", content_length: 80_000_000)
      writer = Thread.new { ("0123456789" * 10_000).then { |part| 800.times { client.write(part) } } }
      client.take_through("\r\n\r\n")
      before = held.call
      size = 0
      while (piece = client.chunk)
        size += piece.bytesize
        next unless size % 20_000_000 < piece.bytesize

        # While no client reads, the server comes to a stop, and what it has dropped does not count.
        eventually(what: "little memory after #{size} bytes") { held.call - before < 5_000_000 }
      end
      writer.join
      assert_equal 80_000_000, size
    end
  end

  # --- the server's end ---

  define_method(:test_draining_closes_what_is_idle_and_lets_the_rest_finish) do
    go = Thread::Queue.new
    serve(->(env) { (go.pop if env["PATH_INFO"] == "/wait").then { [200, {}, ["done"]] } }) do |served|
      silent, idle, partial, running = Array.new(4) { connect(served) }
      idle.get
      partial.write("GET /partial HTTP/1.1\r\nhost")
      running.request("GET /wait HTTP/1.1")
      eventually { served.stats.values_at(:connections, :idle, :running) == [4, 2, 1] }
      served.on_loop { served.server.drain }
      assert silent.ended?
      assert idle.ended?
      assert_raises(Errno::ECONNREFUSED, Errno::ECONNRESET) { served.close_listener.then { connect(served).get } }
      partial.write(": a\r\n\r\n")
      assert_equal ["done", "close"], partial.response.then { |response| [response.body, response["connection"]] }
      go << true
      assert_equal ["done", "close"], running.response.then { |response| [response.body, response["connection"]] }
      assert running.ended?
      [partial, running].each(&:close)
      eventually { served.stats.values_at(:connections, :running) == [0, 0] }
    end
  end

  # Over a Unix socket what is written has arrived when the write returns.
  define_method(:test_draining_serves_requests_that_have_arrived_and_not_been_read) do
    Dir.mktmpdir do |folder|
      serve(hello, unix: File.join(folder, "s")) do |served|
        used, fresh, idle = Array.new(3) { connect(served) }
        [used, idle].each(&:get)
        eventually { served.stats.values_at(:connections, :idle) == [3, 3] }
        served.on_loop do
          [used, fresh].each(&:request)
          served.server.drain
        end
        assert idle.ended?
        [used, fresh].each do |client|
          assert_equal %w[hello close], client.response.then { |response| [response.body, response["connection"]] }
          client.close
        end
        eventually { served.stats.values_at(:connections, :running) == [0, 0] }
      end
    end
  end

  # Its response has promised to keep the connection, so the client's next request is on its way.
  define_method(:test_draining_right_behind_a_response_serves_the_next_request) do
    serve(->(env) { [200, {}, env["PATH_INFO"] == "/last" ? ["last"] : @body] }) do |served|
      client = connect(served)
      @body = Struct.new(:client, :server) do
        def to_ary = ["first"]

        def close
          server.drain
          client.request("GET /last HTTP/1.1")
        end
      end.new(client, served.server)
      assert_equal ["first", nil], client.get.then { |response| [response.body, response["connection"]] }
      assert_equal ["last", connection_close], client.response.then { |response| [response.body, response["connection"]] }
      assert_predicate client, :ended?
    end
  end

  # The loop stands still meanwhile: the kernel takes connections, and the server accepts none.
  define_method(:test_a_stop_takes_what_waits_to_be_accepted) do
    serve(hello) do |served|
      clients = hold(served) do
        Array.new(20) { connect(served).request }.tap do
          served.server.stop
          served.listener.close
          served.server.drain
        end
      end
      clients.each do |client|
        assert_equal %w[hello close], client.response.then { |response| [response.body, response["connection"]] }
        assert_predicate client, :ended?
      end
    end
  end

  define_method(:test_a_new_connection_whose_request_is_on_its_way_gets_its_response_at_a_stop) do
    serve(hello) do |served|
      client = hold(served) { connect(served).tap { served.server.drain }.request }
      assert_equal %w[hello close], client.response.then { |response| [response.body, response["connection"]] }
    end
  end

  define_method(:test_closing_takes_nothing_that_waits_to_be_accepted) do
    serve(hello) do |served|
      client = hold(served) { connect(served).request.tap { served.server.close } }
      assert_equal 0, served.stats[:accepted]
      assert_predicate client, :silent? # the socket is open: another server may take it
    end
  end

  define_method(:test_a_shutdown_waits_for_requests_and_then_cancels_them) do
    events = Thread::Queue.new
    app = lambda do |env|
      env["rack.response_finished"] << ->(*) { events << :finished }
      sleep
    rescue StandardError
      events << :rescued
    ensure
      events << $!.class
    end
    serve(app) do |served|
      client = connect(served).request
      eventually { served.stats[:running] == 1 }
      result = nil
      taken = duration_s { result = served.on_loop { served.server.shutdown(0.1) } }
      assert_equal [Gyre::Stop, :finished], [events.pop, events.pop]
      assert_empty events
      assert_equal false, result
      assert_operator taken, :>, 0.09
      assert client.ended?
      assert_equal [0, 0], served.stats.values_at(:connections, :running)
    end
  end

  define_method(:test_a_shutdown_that_closes_connections_without_a_request_has_cancelled_none) do
    serve(hello) do |served|
      client = connect(served)
      eventually { served.stats[:connections] == 1 }
      assert_equal true, served.on_loop { served.server.shutdown(0) }
      assert_predicate client, :ended?
    end
  end

  define_method(:test_a_shutdown_cancels_streams_and_slow_clients) do
    closed = Thread::Queue.new
    body = Class.new do
      define_method(:each) { |&block| loop { block.call("x" * 100_000) } }
      define_method(:close) { closed << true }
    end
    serve(->(_env) { [200, {}, body.new] }) do |served|
      clients = Array.new(3) { connect(served).request.tap { |client| client.take_through("\r\n\r\n") } }
      assert_equal false, served.on_loop { served.server.shutdown(0.05) }
      assert_equal [true] * 3, Array.new(3) { closed.pop }
      refute_includes clients.first.rest[-20..], "0\r\n\r\n"
    end
  end

  define_method(:test_close_ends_every_connection_at_once) do
    serve(->(_env) { [200, {}, ->(stream) { stream.read }] }) do |served|
      clients = [connect(served), connect(served).write("GET"), connect(served).request("POST / HTTP/1.1", content_length: 5)]
      eventually { served.stats.values_at(:connections, :running) == [3, 1] }
      served.on_loop { served.server.close }
      clients.each(&:rest)
      eventually { served.stats.values_at(:connections, :running) == [0, 0] }
    end
  end

  define_method(:test_a_server_without_a_scheduler_says_what_is_missing) do
    listener = TCPServer.new("127.0.0.1", 0)
    error = assert_raises(RuntimeError) { Gyre::HTTP::Server.new(hello, listeners: [listener]).start }
    assert_match(/needs a thread with a Gyre::Scheduler/, error.message)
  ensure
    listener&.close
  end

  # --- for long ---

  define_method(:test_many_connections_leave_no_fiber_behind) do
    serve(->(env) { sleep(0.001).then { [200, {}, [env["PATH_INFO"]]] } }) do |served|
      before = served.on_loop { served.scheduler.stats[:tasks] }
      200.times do |number|
        client = connect(served)
        client.request("GET /#{number} HTTP/1.1")
        assert_equal "/#{number}", client.response.body if number.even?
        number % 3 == 0 ? client.reset : client.close
      end
      eventually { served.stats.values_at(:connections, :running) == [0, 0] }
      eventually(what: "no fiber but those before") { served.scheduler.stats[:tasks] == before }
    end
  end

  define_method(:test_it_works_with_the_collector_at_every_allocation) do
    app = lambda do |env|
      case env["PATH_INFO"]
      when "/each" then [200, {}, %w[a b].each]
      when "/call" then [200, {}, ->(stream) { stream.write(stream.read) }]
      else [200, { "x" => %w[a b] }, ["hello"]]
      end
    end
    serve(app) do |served|
      client = connect(served)
      GC.stress = 1 # without major collections, which would take minutes in all
      client.write("GET / HTTP/1.1\r\nhost: a\r\nx-y: z\r\n\r\n" \
                   "POST /call HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nt: u\r\n\r\n" \
                   "GET /each HTTP/1.1\r\nhost: a\r\n\r\nHEAD / HTTP/1.1\r\nhost: a\r\n\r\n")
      bodies = Array.new(3) { client.response.body }
      GC.stress = false
      assert_equal %w[hello abc ab], bodies
      assert_equal 200, client.response(head_only: true).status
    ensure
      GC.stress = false
    end
  end

  define_method(:test_it_works_when_objects_move) do
    go = Thread::Queue.new
    app = ->(env) { (go.pop if env["PATH_INFO"] == "/wait").then { [200, { "x" => "y" }, [env["rack.input"].read, "!"]] } }
    serve(app) do |served|
      waiting = Array.new(5) { connect(served).request("POST /wait HTTP/1.1", content_length: 3) }
      idle = Array.new(5) { connect(served).tap(&:get) }
      partial = connect(served).write("GET / HTTP/1.1\r\nho")
      eventually { served.stats[:running] == 5 }
      3.times do
        move_objects
        idle.each { |client| assert_equal "!", client.get.body }
      end
      5.times { go << true }
      waiting.each { |client| assert_equal "abc!", client.write("abc").response.body }
      assert_equal "!", partial.write("st: a\r\n\r\n").response.body
    end
  end

  define_method(:test_a_process_without_descriptors_pauses_and_goes_on) do
    code = <<~'RUBY'
      require "gyre/http"
      trap(:TERM) { exit!(0) }
      listener = TCPServer.new("127.0.0.1", 0)
      Fiber.set_scheduler(Gyre::Scheduler.new)
      log = Object.new
      loop_fiber = Fiber.current
      log.define_singleton_method(:error) do |message|
        own = !Fiber.current.equal?(loop_fiber)
        sleep(0.001) # a log may wait
        $stdout.syswrite("log in #{own ? "a fiber of its own" : "the loop's"}: #{message}\n")
      end
      Fiber.schedule { Gyre::HTTP::Server.new(->(_env) { [200, {}, ["ok"]] }, listeners: [listener], log: log).start }
      Fiber.schedule do
        IO.pipe.first.close
        Process.setrlimit(:NOFILE, Dir.children("/proc/self/fd").size + 8)
        $stdout.syswrite("port #{listener.local_address.ip_port}\n")
      end
      Fiber.scheduler.run
    RUBY
    with_subprocess(*ruby_command("-e", code, env: { "GYRE_BACKEND" => backend })) do |_pid, out, _err|
      port = Integer(out.gets[/\d+/])
      sockets = Array.new(12) { TCPSocket.new("127.0.0.1", port) }
      assert_match(/\Alog in a fiber of its own: cannot accept connections: .*Too many open files/, out.gets)
      sockets.each(&:close)
      socket = TCPSocket.new("127.0.0.1", port)
      socket.write("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
      assert socket.wait_readable(GyreTest::HTTPServing::PATIENCE_S)
      assert_match(/ok\z/, socket.read)
    ensure
      sockets&.each(&:close)
      socket&.close
    end
  end
end

GyreTest::Engines.test_case("HTTP1FaultsContract", backends: GyreTest::Engines::NATIVE, &cases)
GyreTest::H2Contract.test_case("HTTP2FaultsContract", :faults, &cases)
