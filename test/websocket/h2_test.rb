# frozen_string_literal: true

# WebSockets within streams of HTTP/2 (RFC 8441): what the handshake, flow control, and the ends of
# streams and connections add to socket_test.rb.

require "test_helper"
require "http/contract"
require "websocket/serving"

module WebSocketStreams
  include GyreTest::WebSocketServing

  H2 = GyreTest::H2
  KEYS = %w[REQUEST_METHOD PATH_INFO SERVER_PROTOCOL HTTP_CONNECTION HTTP_UPGRADE HTTP_SEC_WEBSOCKET_VERSION rack.protocol].freeze

  # Notes its end.
  class Noting
    attr_reader :ends

    def initialize(&message)
      @ends = Thread::Queue.new
      @message = message
    end

    def on_message(socket, message) = @message&.call(socket, message)

    def on_drained(_socket) = @ends << :drained

    def on_close(socket) = @ends << socket.code
  end

  def open_with(served, **settings)
    connect(served, settings: settings).h2
  end

  def test_a_connect_looks_like_an_upgrade_and_is_answered_by_200
    seen = nil
    app = lambda do |env|
      seen = env
      echo_app(protocols: %w[chat]).call(env)
    end
    serve(app, log_accesses: true) do |served|
      peer = open_websocket(served, "/room?a=1", sec_websocket_protocol: "chat", origin: "https://gyre.test")
      assert_equal ["GET", "/room", "HTTP/2.0", "Upgrade", "websocket", "13", %w[websocket]], seen.values_at(*KEYS)
      assert_equal 16, seen["HTTP_SEC_WEBSOCKET_KEY"].unpack1("m0").bytesize
      assert_equal [%w[sec-websocket-protocol chat]], peer.handshake.fields.reject { |name, _| name == "date" }
      assert_equal "hi", peer.text("hi").message
    end
  end

  def test_what_is_counted_is_counted_once
    serve(echo_app) do |served|
      h2 = connect(served).h2
      peer = open_stream(h2)
      5.times { peer.text("x" * 100_000).message }
      peer.close(1000).closed
      h2.close
      eventually { served.stats.values_at(:connections, :upgraded) == [0, 0] }
      counts, measured = served.on_loop { [served.server.stats, served.server.measurements] }
      assert_equal [1, 5, 5, 1], [*counts.values_at(:upgrades, :messages_received, :messages_sent), measured["responses"]["2xx"]]
      measured.values_at("received_bytes", "sent_bytes").each { |bytes| assert_in_delta 501_000, bytes, 5_000 }
      assert_equal [0, 0], served.used.values_at(:input, :output)
    end
  end

  def test_refusals_are_responses
    serve(echo_app) do |served|
      h2 = connect(served).h2
      { { sec_websocket_version: "8" } => 426, { origin: "https://evil.test" } => 403 }.each do |fields, status|
        assert_equal status, h2.open_fields(connect_fields(**fields), end_stream: false).head.status
      end
      assert_equal 426, h2.get.status
      assert_equal "x", open_stream(h2).text("x").message
    end
  end

  # A 2xx would be a WebSocket to the client.
  def test_an_app_that_knows_no_websockets_refuses_them
    apps = { "/array" => [200, {}, ["hello"]], "/each" => [200, {}, %w[hello].each], "/204" => [204, {}, []],
             "/body" => [200, {}, ->(stream) { stream.close }], "/404" => [404, {}, ["none"]] }
    serve(->(env) { apps.fetch(env["PATH_INFO"]) }) do |served|
      h2 = connect(served).h2
      apps.each_key do |path|
        stream = h2.open_fields(connect_fields(path), end_stream: false).head
        assert_equal path == "/404" ? 404 : 400, stream.status, path
      end
    end
  end

  def test_sockets_and_requests_share_a_connection
    app = ->(env) { env["rack.protocol"] ? echo_app.call(env) : [200, {}, ["hello"]] }
    serve(app) do |served|
      h2 = connect(served).h2
      peers = Array.new(20) { open_stream(h2) }
      peers.each_with_index { |peer, index| peer.text("for #{index}") }
      assert_equal "hello", h2.get.body
      peers.each_with_index { |peer, index| assert_equal "for #{index}", peer.message }
      assert_equal [1, 20, 0], served.stats.values_at(:connections, :upgraded, :running)
      peers.each { |peer| peer.close(1000).closed }
      eventually { served.stats.values_at(:connections, :upgraded) == [1, 0] }
      assert_equal "hello", h2.get.body
    end
  end

  def test_frames_may_come_with_the_head
    serve(echo_app) do |served|
      h2 = connect(served).h2
      h2.write(H2.headers(1, connect_fields, end_stream: false), H2.data(1, GyreTest::WebSocketServing.frame(1, "early"), end_stream: false))
      assert_equal "early", GyreTest::WebSocketServing::Peer.new(GyreTest::WebSocketServing::StreamClient.new(h2, h2.stream(1)), nil).message
    end
  end

  def test_a_message_longer_than_every_window_goes_both_ways
    serve(echo_app(message_bytes_limit: "8M")) do |served|
      long = "0123456789abcdef" * 200_000
      assert_equal long, open_websocket(served).text(long).message
    end
  end

  # The connection's window is not used up: other streams go on.
  def test_a_client_is_held_up_while_nothing_reads_and_others_are_not
    go = Thread::Queue.new
    app = lambda do |env|
      next echo_app.call(env) if env["PATH_INFO"] == "/echo"

      Gyre::WebSocket.open(env) do |socket|
        go.pop
        socket.each { |message| socket.write(message.bytesize.to_s) }
      end
    end
    serve(app, limits: { stream_window_bytes_limit: 100_000, connection_window_bytes_limit: 200_000 }) do |served|
      h2 = connect(served).h2.greet
      held = Array.new(3) { open_stream(h2) }
      frame = GyreTest::WebSocketServing.frame(1, "y" * 20_000)
      held.each do |peer|
        stream = peer.client.stream
        4.times do # each by itself, or the socket would take all of one reception
          peer.write(frame)
          h2.synchronize
        end
        assert_operator stream.window, :<, 50_000 # one message is in the socket's own buffer
      end
      echo = open_stream(h2, "/echo")
      20.times { assert_equal 20_000, echo.text("z" * 20_000).message.bytesize }
      3.times { go << true }
      held.each { |peer| 4.times { assert_equal "20000", peer.message } }
      held.each { |peer| 10.times { assert_equal "20000", peer.text("y" * 20_000).message } }
    end
  end

  def test_a_writer_waits_for_the_streams_window
    written = Thread::Queue.new
    app = socket_app(output_bytes_limit: 10_000) { |socket| 50.times { |index| socket.write("x" * 10_000) and written << index } }
    serve(app) do |served|
      h2 = open_with(served, initial_window_size: 0)
      peer = open_stream(h2)
      3.times { h2.synchronize }
      assert_equal 0, written.size
      h2.write(H2.window_update(peer.client.stream.id, 65_535))
      50.times { assert_equal 10_000, peer.message.bytesize }
      assert_equal [1000, ""], peer.closed
    end
  end

  def test_a_handler_learns_when_its_stream_has_taken_everything
    handler = Noting.new { |socket, message| socket.write(message * 10_000) }
    serve(->(env) { Gyre::WebSocket.open(env, handler, output_bytes_limit: "8M") }) do |served|
      h2 = open_with(served, initial_window_size: 0)
      peer = open_stream(h2)
      peer.text("slow")
      h2.synchronize
      assert_empty handler.ends
      h2.write(H2.window_update(peer.client.stream.id, 65_535))
      assert_equal 40_000, peer.message.bytesize
      assert_equal :drained, handler.ends.pop
    end
  end

  def test_a_stream_that_takes_nothing_is_cut_off_alone
    handler = Noting.new { |socket, message| socket.write(message * 1000) }
    serve(->(env) { Gyre::WebSocket.open(env, handler) }, limits: { write_timeout_s: 0.2 }) do |served|
      h2 = open_with(served, initial_window_size: 0)
      peer = open_stream(h2)
      peer.text("taken by nobody")
      assert_equal :cancel, peer.client.stream.failure
      assert_equal 1006, handler.ends.pop
      h2.write(H2.settings(initial_window_size: 65_535))
      assert_equal "x" * 1000, open_stream(h2).text("x").message
    end
  end

  def test_a_subscriber_that_takes_nothing_is_cut_off_alone
    sockets = Thread::Queue.new
    app = socket_app(backlog_bytes_limit: 50_000, backlog_timeout_s: 0.1) { |socket| sockets << socket and socket.read }
    serve(app) do |served|
      h2 = open_with(served, initial_window_size: 0)
      peer = open_stream(h2)
      socket = sockets.pop
      frame = Gyre::WebSocket.frame("x" * 10_000, 0)
      assert_equal 10, served.on_loop { Array.new(10) { socket.offer(frame) }.count(true) }
      eventually { !served.on_loop { socket.offer(frame) } }
      assert_equal [:cancel, 1013], [peer.client.stream.failure, socket.code]
      eventually { served.stats[:upgraded].zero? && served.used[:output].zero? }
    end
  end

  def test_a_reset_of_the_stream_ends_its_socket_alone
    handler = Noting.new { |socket, message| socket.write(message) }
    serve(->(env) { Gyre::WebSocket.open(env, handler) }) do |served|
      h2 = connect(served).h2
      peers = Array.new(2) { open_stream(h2) }
      peers.first.client.stream.reset
      assert_equal 1006, handler.ends.pop
      assert_equal "on", peers.last.text("on").message
      eventually { served.stats.values_at(:connections, :upgraded) == [1, 1] }
    end
  end

  # Browsers reset their side after they have sent the rest.
  def test_messages_before_a_reset_are_read
    messages = Thread::Queue.new
    go = Thread::Queue.new
    app = socket_app do |socket|
      go.pop
      socket.each { |message| messages << message }
      messages << socket.code
    end
    serve(app) do |served|
      h2 = connect(served).h2
      peer = open_stream(h2).text("one").text("two").close(4000)
      h2.synchronize
      peer.client.stream.reset
      h2.synchronize
      go << true
      assert_equal ["one", "two", 4000], Array.new(3) { messages.pop }
    end
  end

  def test_a_stream_that_ends_without_a_close_is_answered_by_its_end
    handler = Noting.new
    serve(->(env) { Gyre::WebSocket.open(env, handler) }) do |served|
      peer = open_websocket(served)
      peer.client.stream.finish
      assert peer.ended?
      assert_nil peer.client.stream.error
      assert_equal 1006, handler.ends.pop
    end
  end

  def test_a_blocked_writer_learns_of_a_reset
    codes = Thread::Queue.new
    app = socket_app do |socket|
      loop { socket.write("x" * 100_000) }
    rescue Gyre::WebSocket::ClosedError
      codes << socket.code
    end
    serve(app) do |served|
      h2 = open_with(served, initial_window_size: 0)
      peer = open_stream(h2)
      h2.synchronize
      peer.client.stream.reset
      assert_equal 1006, codes.pop
      eventually { served.stats[:upgraded].zero? }
    end
  end

  def test_sockets_end_with_their_connection
    handler = Noting.new
    serve(->(env) { Gyre::WebSocket.open(env, handler) }) do |served|
      h2 = connect(served).h2
      10.times { open_stream(h2) }
      h2.reset
      assert_equal [1006] * 10, Array.new(10) { handler.ends.pop }
      eventually { served.stats.values_at(:connections, :upgraded, :running) == [0, 0, 0] }
    end
  end

  def test_a_half_closed_connection_ends_its_sockets
    handler = Noting.new
    serve(->(env) { Gyre::WebSocket.open(env, handler) }) do |served|
      h2 = connect(served).h2
      peers = Array.new(3) { open_stream(h2) }
      h2.finish
      assert_equal [1006] * 3, Array.new(3) { handler.ends.pop }
      peers.each { |peer| assert peer.ended? }
      eventually { served.stats.values_at(:connections, :upgraded) == [0, 0] }
    end
  end

  def test_a_reset_during_the_handshake_is_not_an_error
    gate = Thread::Queue.new
    app = lambda do |env|
      gate.pop
      echo_app.call(env)
    end
    serve(app) do |served|
      h2 = connect(served).h2
      streams = Array.new(5) { h2.open_fields(connect_fields, end_stream: false) }
      eventually { gate.num_waiting == 5 }
      streams.each(&:reset)
      h2.synchronize
      5.times { gate << true }
      eventually { served.stats.values_at(:running, :upgraded) == [0, 0] }
    end
  end

  def test_a_flood_of_pings_is_answered_as_fast_as_the_client_reads
    serve(echo_app) do |served|
      h2 = open_with(served, initial_window_size: 0)
      peer = open_stream(h2)
      flood = GyreTest::WebSocketServing.frame(9, "p" * 100) * 2000
      peer.write(flood.byteslice(0, 200_000)) # of 212,000; answers wait, and so does the rest
      10.times { h2.synchronize }
      assert_operator served.used[:output], :<, 300_000
      h2.write(H2.window_update(peer.client.stream.id, 1_000_000))
      peer.write(flood.byteslice(200_000..))
      2000.times { assert_equal [10, "p" * 100], peer.frame.to_a.first(2) }
    end
  end

  def test_a_stop_under_load_closes_every_socket
    serve(echo_app) do |served|
      clients = Array.new(4) { connect(served).h2 }
      peers = clients.flat_map { |h2| Array.new(10) { open_stream(h2) } }
      peers.each { |peer| 5.times { peer.text("x" * 1000) } }
      stopping = Thread.new { served.on_loop { served.server.shutdown(30) } }
      peers.each do |peer|
        frame = peer.frame until frame&.opcode == 8
        assert_equal [1001].pack("n"), frame.payload
        peer.close(1001)
      end
      assert_equal true, stopping.value
      assert_equal :no_error, clients.first.failure
    end
  end

  def test_a_stop_ends_clients_that_do_not_answer
    serve(echo_app(close_timeout_s: 0.1)) do |served|
      h2 = connect(served).h2
      peer = open_stream(h2)
      stopping = Thread.new { served.on_loop { served.server.shutdown(30) } }
      assert_equal [1001, ""], peer.closed
      assert peer.ended?
      assert_equal true, stopping.value
    end
  end

  def test_a_forked_child_leaves_the_sockets_to_its_parent
    app = socket_app do |socket|
      socket.each do |message|
        next socket.write(message) unless message == "fork"

        pid = Process.fork { GC.start && exit!(socket.closed? ? 0 : 1) }
        socket.write(Process.wait2(pid).last.exitstatus.to_s)
      end
    end
    serve(app) do |served|
      h2 = connect(served).h2
      peers = Array.new(3) { open_stream(h2) }
      assert_equal "0", peers[1].text("fork").message
      peers.each { |peer| assert_equal "still", peer.text("still").message }
      peers.each { |peer| peer.close(1000).closed }
      eventually { served.stats[:upgraded].zero? }
    end
  end

  def test_an_abandoned_reader_and_a_cancelled_one_leave_their_socket
    results = Thread::Queue.new
    app = socket_app do |socket|
      Enumerator.new { |yielder| yielder << socket.read }.next # its fiber is left
      waiting = Fiber.schedule { socket.read }
      Fiber.scheduler.fiber_interrupt(waiting, Gyre::Stop.new("enough"))
      sleep(0)
      GC.start
      results << waiting.alive?
      socket.write(socket.read)
    end
    serve(app) do |served|
      peer = open_websocket(served).text("first")
      assert_equal false, results.pop
      assert_equal "second", peer.text("second").message
    end
  end
end

GyreTest::HTTPContract.run(WebSocketStreams, over: %i[http2 http2_tls])
