# frozen_string_literal: true

# Clients that take or send slowly, threads that leave, and code that ends in other ways.

require "test_helper"
require "http/contract"
require "websocket/serving"
require "gyre/sse"
require "timeout"

module SlowSockets
  include GyreTest::WebSocketServing

  def test_a_client_that_takes_output_has_time_to_answer_the_close
    app = socket_app(close_timeout_s: 1) { |socket| socket.write("x" * 1_000_000) }
    serve(app, buffers: 20_000) do |served|
      peer = open_websocket(served)
      assert_equal 10, take_slowly(peer, 1_000_000, over_s: 1.5).size
      assert_equal [1000, ""], peer.closed
    end
  end

  def test_a_client_that_takes_output_is_not_silent
    app = socket_app(idle_timeout_s: 1) { |socket| socket.write("x" * 1_000_000) && socket.read && socket.write("still here") }
    serve(app, buffers: 20_000) do |served|
      peer = open_websocket(served)
      take_slowly(peer, 1_000_000, over_s: 1.5)
      peer.text("on")
      frame = peer.frame
      frame = peer.frame while frame.opcode == 9
      assert_equal "still here", frame.payload
    end
  end

  def test_unfinished_messages_leave_room_for_others
    serve(echo_app, limits: { input_bytes_limit: "2M" }) do |served|
      holders = Array.new(3) { open_websocket(served).send(1, "h" * 400_000, final: false) }
      eventually { served.used[:input].between?(500_000, 1 << 20) && served.stats[:upgraded] < 3 }
      frame = GyreTest::WebSocketServing.frame(1, "m" * 100_000)
      peer = open_websocket(served).write(frame.byteslice(0, 50_000))
      eventually { served.used[:input] > 1 << 19 }
      assert_equal 100_000, peer.write(frame.byteslice(50_000..)).message.bytesize
      assert_equal [1013, "the server holds too many unfinished messages"], holders.first.closed
    end
  end

  def test_an_unfinished_message_has_the_least_rate_of_a_body
    serve(echo_app, limits: { body_grace_timeout_s: 0.2, body_rate_bytes_limit: 1_000_000 }) do |served|
      peer = open_websocket(served).send(1, "part", final: false)
      assert_equal [1013, "the message comes too slowly"], peer.closed
    end
  end

  def test_a_whole_message_may_wait_for_the_app
    app = socket_app { |socket| socket.read && sleep(1.2) && socket.write(socket.read.bytesize.to_s) }
    serve(app, limits: { body_grace_timeout_s: 1, body_rate_bytes_limit: 1_000_000 }) do |served|
      peer = open_websocket(served).text("first").text("m" * 200_000) # comes in parts
      assert_equal "200000", peer.message
    end
  end

  def test_a_message_that_a_thread_has_left_comes_to_the_next_read
    count = 60
    app = socket_app do |socket|
      Thread.new do
        got = []
        until got.last == count
          begin
            got << Timeout.timeout(0.001) { socket.read.to_i }
          rescue Timeout::Error
            next
          end
        end
        socket.write(got.join(" "))
      end.join
    end
    serve(app) do |served|
      peer = open_websocket(served)
      (1..count).each { |number| peer.text(number.to_s) && sleep(0.001) }
      assert_equal (1..count).to_a, peer.message.split.map(&:to_i)
    end
  end

  def test_exit_in_a_sockets_code_ends_that_socket_alone
    handler = Object.new
    handler.define_singleton_method(:on_message) { |_socket, _message| exit(1) }
    app = ->(env) { env["PATH_INFO"] == "/" ? Gyre::WebSocket.open(env, handler) : Gyre::WebSocket.open(env) { |socket| socket.read && abort("no") } }
    serve(app) do |served|
      %w[/ /block].each do |path|
        assert_equal [1011, ""], open_websocket(served, path).text("x").closed
        expect_errors(served, /\Aa WebSocket: unhandled in the app: .*SystemExit/m)
      end
    end
  end

  def test_a_reason_is_text
    assert_equal "Mäx", Gyre::WebSocket.check_close(4000, "Mäx".b)
    assert_raises(ArgumentError) { Gyre::WebSocket.check_close(4000, "Mäx".byteslice(0, 2)) }
  end

  def test_a_handler_may_write_before_the_close_of_a_stop
    handler = Object.new
    handler.define_singleton_method(:on_message) { |socket, message| socket.write(message) }
    handler.define_singleton_method(:on_shutdown) { |socket| socket.write("going away") }
    serve(->(env) { Gyre::WebSocket.open(env, handler) }) do |served|
      peer = open_websocket(served)
      assert_equal "in", peer.text("in").message
      stopping = Thread.new { served.on_loop { served.server.shutdown(30) } }
      assert_equal "going away", peer.message
      assert_equal [1001, ""], peer.closed
      peer.close(1001)
      stopping.value
    end
  end

  def test_an_address_limit_holds_for_handshakes_at_the_same_time
    app = socket_app(address_limit: 2) { |socket| socket.read }
    slow = ->(env) { app.call(env).tap { sleep(0.05) } }
    serve(slow) do |served|
      statuses = Array.new(6) { Thread.new { get(served, **self.class::FIELDS).status } }.map(&:value)
      assert_equal [101, 101, 429, 429, 429, 429], statuses.sort
      open = ->(address) { Gyre::WebSocket::Addresses.sockets("REMOTE_ADDR" => address) }
      assert_same open["192.0.2.1"], open["::ffff:192.0.2.1"]
      refute_same open["192.0.2.1"], open["::ffff:192.0.2.2"]
    end
  end

  private

  # Takes a message's first bytes in ten pieces.
  def take_slowly(peer, bytes, over_s:)
    peer.client.take(10)
    Array.new(10) do
      sleep(over_s / 10.0) # the client's speed
      peer.client.take(bytes / 10)
    end
  end
end

GyreTest::HTTPContract.run(SlowSockets, over: %i[http1])
