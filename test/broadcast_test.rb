# frozen_string_literal: true

# Messages for many sockets and streams at once.

require "test_helper"
require "http/contract"
require "websocket/serving"
require "gyre/broadcast"

module Broadcasts
  include GyreTest::WebSocketServing

  # Subscribes each socket to the topic in its path, and publishes what it sends.
  module Chat
    def self.call(env)
      topic = env["PATH_INFO"]
      Gyre::WebSocket.open(env, backlog_bytes_limit: 100_000, backlog_timeout_s: 0.2) do |socket|
        Gyre::Broadcast.subscribe(topic, socket)
        socket.write("in")
        socket.each { |message| Gyre::Broadcast.publish(topic, message) }
      end
    end
  end

  def test_all_subscribers_of_a_topic_get_a_message
    serve(Chat) do |served|
      peers = Array.new(5) { enter(served, "/a") }
      other = enter(served, "/b")
      peers.first.text("häh")
      peers.first.binary("\xff")
      peers.each do |peer|
        frames = Array.new(2) { peer.frame }
        assert_equal [[1, "häh"], [2, "\xff".b]], frames.map { |frame| [frame.opcode, frame.payload] }
      end
      assert other.silent?
    end
  end

  def test_a_socket_that_ends_leaves_its_topics
    serve(Chat) do |served|
      peers = Array.new(3) { enter(served, "/a") }
      assert_equal 3, Gyre::Broadcast.count("/a")
      peers.pop.client.reset
      eventually { Gyre::Broadcast.count("/a") == 2 }
      peers.pop.close(1000)
      eventually { Gyre::Broadcast.count("/a") == 1 }
      peers.first.text("still here")
      assert_equal "still here", peers.first.message
    end
  end

  def test_a_socket_that_the_program_has_extended_is_a_subscriber
    sockets = Thread::Queue.new
    app = socket_app do |socket|
      Gyre::Broadcast.subscribe(:one, socket.extend(Comparable))
      sockets << socket
      socket.read
    end
    serve(app) do |served|
      peer = open_websocket(served)
      sockets.pop
      assert_equal [1, "1"], [Gyre::Broadcast.publish(:one, "1"), peer.message]
    end
  end

  def test_one_may_unsubscribe
    sockets = Thread::Queue.new
    app = socket_app do |socket|
      2.times { Gyre::Broadcast.subscribe(:one, socket) }
      Gyre::Broadcast.subscribe(:two, socket)
      sockets << socket
      socket.read
    end
    serve(app) do |served|
      peer = open_websocket(served)
      socket = sockets.pop
      assert_equal [1, 1, 0], [Gyre::Broadcast.publish(:one, "1"), Gyre::Broadcast.publish(:two, "2"), Gyre::Broadcast.publish(:none, "3")]
      Gyre::Broadcast.unsubscribe(:one, socket)
      assert_equal [0, 1], [Gyre::Broadcast.publish(:one, "4"), Gyre::Broadcast.publish(:two, "5")]
      assert_equal %w[1 2 5], Array.new(3) { peer.message }
    end
  end

  def test_a_slow_subscriber_holds_up_none_and_is_cut_off
    serve(Chat, buffers: 20_000) do |served|
      slow = enter(served, "/a")
      quick = enter(served, "/a")
      eventually { quick.text("x" * 10_000).message && Gyre::Broadcast.count("/a") == 1 }
      assert_operator slow.client.rest.bytesize, :<, 500_000
      assert_equal "last", quick.text("last").message
    end
  end

  def test_other_threads_may_publish
    serve(Chat) do |served|
      peers = Array.new(3) { enter(served, "/a") }
      assert_equal 3, Gyre::Broadcast.publish("/a", "from the test's thread")
      peers.each { |peer| assert_equal "from the test's thread", peer.message }
    end
  end

  def test_topics_without_subscribers_are_dropped
    serve(->(env) { Gyre::WebSocket.open(env) { |socket| Gyre::Broadcast.subscribe(env["PATH_INFO"], socket) && socket.read } }) do |served|
      300.times do |index|
        peer = open_websocket(served, "/#{index}")
        peer.client.reset
      end
      eventually { served.stats[:upgraded].zero? }
      assert_operator Gyre::Broadcast.instance_variable_get(:@topics).size, :<, 150
    end
  end

  def test_a_message_that_an_event_stream_cannot_carry_reaches_no_subscriber
    serve(with_events(Chat, "/a")) do |served|
      peer = enter(served, "/a")
      listen(served)
      served.on_loop do
        assert_raises(EncodingError) { Gyre::Broadcast.publish("/a", "\xff".b) }
        assert_raises(ArgumentError) { Gyre::Broadcast.publish("/a", "x", id: "1\n2") }
        assert_equal 2, Gyre::Broadcast.publish("/a", "fine")
      end
      assert_equal "fine", peer.message
    end
  end

  def test_a_topic_has_one_name_in_all_processes
    serve(->(env) { Gyre::WebSocket.open(env) { |socket| Gyre::Broadcast.subscribe([:room, 5, "ä".b], socket) && socket.read } }) do |served|
      peer = open_websocket(served)
      eventually { Gyre::Broadcast.count(["room", 5, :ä]) == 1 }
      assert_equal 1, Gyre::Broadcast.publish(["room", 5, "ä"], "hello")
      assert_equal "hello", peer.message
    end
    ["\xff", nil, 5, ["room", nil], [[:room]], { room: 5 }, "ä".encode("UTF-16LE")[0].b].each do |topic|
      error = assert_raises(ArgumentError, topic.inspect) { Gyre::Broadcast.publish(topic, "x") }
      assert_match(/\Aa topic is a String in UTF-8, .* is not\z/, error.message)
    end
  end

  def test_all_sockets_and_streams_of_one_subscriber_are_closed
    app = socket_app { |socket| Gyre::Broadcast.subscribe(:all, socket, as: socket.read.to_i) && socket.write("in") && socket.read }
    serve(with_events(app, :all, as: 7)) do |served|
      peers = [7, 7, 8].map { |user| open_websocket(served).text(user.to_s).tap { |peer| assert_equal "in", peer.message } }
      events = listen(served)
      assert_equal 0, Gyre::Broadcast.disconnect("7")
      assert_equal 3, Gyre::Broadcast.disconnect(7)
      2.times { |index| assert_equal [1008, "disconnected"], peers[index].closed }
      assert_empty events.rest
      2.times { |index| peers[index].close(1008) }
      eventually { Gyre::Broadcast.count(:all) == 1 }
      assert_equal 1, Gyre::Broadcast.publish(:all, "others stay")
      assert_equal "others stay", peers.last.message
    end
  end

  def test_a_disconnected_subscriber_gets_no_later_message
    app = socket_app { |socket| Gyre::Broadcast.subscribe(:all, socket, as: 7) && socket.write("in") && socket.read }
    serve(app) do |served|
      peer = open_websocket(served)
      assert_equal "in", peer.message
      assert_equal([1, 0], served.on_loop { [Gyre::Broadcast.disconnect(7), Gyre::Broadcast.publish(:all, "secret")] })
      assert_equal [1008, "disconnected"], peer.closed
    end
  end

  def test_wrong_messages
    assert_equal 0, Gyre::Broadcast.publish(:nobody, "\xff")
    assert_raises(ArgumentError) { Gyre::WebSocket.frame("\xff") }
  end

  private

  # The app, with event streams at /events.
  def with_events(app, topic, **options)
    ->(env) { env["PATH_INFO"] == "/events" ? Gyre::SSE.open(env, topics: [topic], **options) : app.call(env) }
  end

  def listen(served)
    client = connect(served).request("GET /events HTTP/1.1")
    client.take_through("\r\n\r\n:\n\n")
    eventually { served.stats[:running].zero? }
    client
  end

  def enter(served, path)
    open_websocket(served, path).tap { |peer| assert_equal "in", peer.message }
  end
end

GyreTest::HTTPContract.run(Broadcasts, over: %i[http1 tls])
