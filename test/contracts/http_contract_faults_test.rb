# frozen_string_literal: true

# What a server does when apps, clients and servers fail or end: only the one at fault notices, and
# nothing is left behind.

require "test_helper"
require "http/contract"

module HTTPFaultsContract
  include GyreTest::HTTPServing

  HELLO = ->(_env) { [200, {}, ["hello"]] }

  # --- what is beside it ---

  def test_the_end_of_another_server_of_the_same_socket_leaves_it_alone
    serve(HELLO) do |served|
      served.on_loop { Gyre::HTTP::Server.new(HELLO, listeners: [served.listener]).start.close }
      assert_equal 200, get(served).status
    end
  end

  # --- the app ---

  def test_an_app_that_raises_gives_a_500_and_a_trace_in_the_log
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

  def test_an_app_that_raises_after_the_end_of_its_stream_harms_nobody
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

  def test_a_body_shorter_than_its_content_length_ends_the_connection
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

  def test_an_array_with_a_wrong_content_length_is_a_500
    serve(->(env) { [200, { "content-length" => env["QUERY_STRING"] }, ["abc"]] }) do |served|
      client = connect(served)
      %w[2 4].each do |length|
        assert_equal 500, client.get("GET /?#{length} HTTP/1.1").status
        expect_errors(served, /LengthError/)
      end
      assert_equal 200, client.get("GET /?3 HTTP/1.1").status
    end
  end

  def test_exit_in_an_app_is_the_end_of_its_request_only
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

  def test_apps_wait_side_by_side
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

  def test_apps_may_use_fibers_of_their_own
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

  def test_what_an_app_leaves_in_its_fiber_does_not_reach_the_next_request
    app = lambda do |_env|
      seen = Thread.current[:left_behind].inspect
      Thread.current[:left_behind] = true
      [200, {}, [seen]]
    end
    serve(app) do |served|
      3.times { assert_equal "nil", get(served).body }
    end
  end

  def test_apps_may_write_their_stream_from_a_thread
    app = lambda do |_env|
      [200, {}, lambda do |stream|
        Thread.new { 3.times { |number| stream.write(number.to_s) } }.join
        stream.close
      end]
    end
    serve(app) { |served| assert_equal "012", get(served).body }
  end

  # --- the client ---

  def test_a_client_that_goes_away_in_its_response_ends_only_that
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

  def test_a_fast_app_waits_for_a_slow_client
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

  # --- the server's end ---

  def test_closing_takes_nothing_that_waits_to_be_accepted
    return if tls? # a handshake needs the loop that is held

    serve(HELLO) do |served|
      client = hold(served) { connect(served).request.tap { served.server.close } }
      assert_equal 0, served.stats[:accepted]
      assert_predicate client, :silent? # the socket is open: another server may take it
    end
  end

  def test_a_shutdown_waits_for_requests_and_then_cancels_them
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

  def test_a_shutdown_that_closes_connections_without_a_request_has_cancelled_none
    serve(HELLO) do |served|
      client = connect(served)
      eventually { served.stats[:connections] == 1 }
      assert_equal true, served.on_loop { served.server.shutdown(0) }
      assert_predicate client, :ended?
    end
  end

  def test_a_shutdown_cancels_streams_and_slow_clients
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

  def test_a_server_without_a_scheduler_tells_what_is_missing
    listener = TCPServer.new("127.0.0.1", 0)
    error = assert_raises(RuntimeError) { Gyre::HTTP::Server.new(HELLO, listeners: [listener]).start }
    assert_match(/needs a thread with a Gyre::Scheduler/, error.message)
  ensure
    listener&.close
  end

  # --- for long ---

  def test_many_connections_leave_no_fiber_behind
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

  def test_a_process_without_descriptors_pauses_and_goes_on
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

GyreTest::HTTPContract.run(HTTPFaultsContract)
