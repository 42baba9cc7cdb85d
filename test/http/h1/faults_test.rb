# frozen_string_literal: true

# Faults and ends that only a connection of HTTP/1 has: cut bodies, half-closed sockets, reading
# ahead, drains between requests. What HTTP/2 has, too, is in test/contracts.

require "test_helper"
require "objspace"
require "timeout"
require "tmpdir"
require "support/engines"
require "http/serving"

module HTTP1Faults
  include GyreTest::HTTPServing

  HELLO = ->(_env) { [200, {}, ["hello"]] }

  # --- what is beside it ---

  # A hook raises where Ruby raises what Thread#raise sent: in the fiber that gets control.
  def test_an_exception_that_comes_while_a_handler_gives_control_back_is_not_swallowed
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

  def test_no_second_head_is_sent_when_the_conversion_of_a_status_sends_one
    error = nil
    app = lambda do |env|
      connection = env["rack.hijack"]
      status = Object.new
      status.define_singleton_method(:to_int) { connection.write_head(204, {}, nil).then { 200 } }
      error = assert_raises(RuntimeError) { connection.write_head(status, {}, nil) }
      HELLO.call(env)
    end
    serve(app) do |served|
      assert_equal 204, get(served).status
      expect_errors(served, /the head has been sent already/) # the app's own response
    end
    assert_equal "the head has been sent already", error.message
  end

  def test_an_app_that_raises_in_its_body_cuts_the_response_so_that_the_client_sees_it
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

  def test_a_write_that_was_interrupted_in_the_middle_is_followed_by_nothing
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

  def test_a_client_that_half_closes_gets_its_response_although_its_body_is_not_read
    serve(HELLO) do |served|
      5.times do
        client = connect(served)
        client.write("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 90000\r\n\r\n", "x" * 90_000)
        client.socket.close_write
        assert_equal "hello", client.response.body
      end
    end
  end

  def test_a_body_longer_than_its_content_length_is_cut_there
    serve(->(_env) { [200, { "content-length" => "4" }, %w[abc def ghi].each] }) do |served|
      client = connect(served)
      response = client.get
      assert_equal "abcd", response.body
      assert client.ended?
      expect_errors(served, /longer.*LengthError/m)
    end
  end

  # --- the client ---

  def test_a_client_that_goes_away_between_or_in_requests_leaves_nothing
    serve(HELLO) do |served|
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

  def test_a_body_that_is_cut_off_is_an_eof_error_to_the_app_and_a_400_to_the_client
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

  def test_a_fast_client_waits_for_a_slow_app
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

  def test_a_large_stream_goes_both_ways_in_little_memory
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

  def test_draining_closes_what_is_idle_and_lets_the_rest_finish
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
  def test_draining_serves_requests_that_have_arrived_and_not_been_read
    Dir.mktmpdir do |folder|
      serve(HELLO, unix: File.join(folder, "s")) do |served|
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
  def test_draining_right_after_a_response_serves_the_next_request
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
  def test_a_stop_takes_what_waits_to_be_accepted
    serve(HELLO) do |served|
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

  def test_a_new_connection_whose_request_is_on_its_way_gets_its_response_at_a_stop
    serve(HELLO) do |served|
      client = hold(served) { connect(served).tap { served.server.drain }.request }
      assert_equal %w[hello close], client.response.then { |response| [response.body, response["connection"]] }
    end
  end

  def test_close_ends_every_connection_at_once
    serve(->(_env) { [200, {}, ->(stream) { stream.read }] }) do |served|
      clients = [connect(served), connect(served).write("GET"), connect(served).request("POST / HTTP/1.1", content_length: 5)]
      eventually { served.stats.values_at(:connections, :running) == [3, 1] }
      served.on_loop { served.server.close }
      clients.each(&:rest)
      eventually { served.stats.values_at(:connections, :running) == [0, 0] }
    end
  end

  # --- for long ---

  def test_it_works_with_the_collector_at_every_allocation
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

  def test_it_works_when_objects_move
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
end

GyreTest::Engines.test_case("HTTP1FaultsTest", backends: GyreTest::Engines::NATIVE) { include HTTP1Faults }
