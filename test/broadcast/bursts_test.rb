# frozen_string_literal: true

# Publishers that are faster than sockets: bursts, slow subscribers, budgets, and the order of
# messages. The model test draws publishers and subscribers by seed (GYRE_SEED).

require "test_helper"
require "http/contract"
require "websocket/serving"
require "gyre/broadcast"

module BroadcastBursts
  include GyreTest::WebSocketServing

  # Subscribes each socket to the topics in its path, as the user "u".
  class Room
    def initialize(**options) = @options = options

    def call(env)
      return [200, {}, ["x" * 6_000_000]] if env["PATH_INFO"] == "/long"

      topics = env["PATH_INFO"].delete_prefix("/").split("+")
      Gyre::WebSocket.open(env, **@options, backlog_timeout_s: topics.last == "stuck" ? 2 : 60) do |socket|
        topics.each { |topic| Gyre::Broadcast.subscribe(topic, socket, as: "u") }
        socket.write("in")
        socket.read
      end
    end
  end

  def test_a_burst_of_one_turn_reaches_clients_that_read_and_cuts_those_that_do_not
    serve(Room.new, buffers: 20_000, limits: { output_bytes_limit: "2M" }) do |served|
      stuck = Array.new(3) { enter(served, "/room+stuck") }
      readers = Array.new(6) { enter(served, "/room") }.map { |peer| Thread.new { Array.new(120) { peer.message.bytesize }.sum } }
      most = 0
      served.on_loop do
        120.times do |number|
          Gyre::Broadcast.publish("room", "#{number} ".ljust(50_000, "x"))
          most = [most, served.used[:output]].max
        end
      end
      assert_equal [120 * 50_000] * 6, readers.map(&:value)
      assert_operator most, :<, 3 << 20
      cut, held = served.on_loop { served.server.stats.values_at(:slow_sockets, :publishers_held) }
      assert_equal [3, true], [cut, held.positive?]
      assert_equal 6, Gyre::Broadcast.count("room")
      stuck.each { |peer| peer.client.reset }
    end
  end

  def test_a_frame_is_stored_once_for_all_subscribers
    serve(Room.new(backlog_bytes_limit: "8M"), buffers: 20_000) do |served|
      peers = Array.new(20) { enter(served, "/room") }
      used = served.on_loop do
        10.times { |number| Gyre::Broadcast.publish("room", number.to_s * 50_000) }
        served.used[:output]
      end
      assert_operator used, :<, 2 << 20 # 10 MB as copies
      peers.each { |peer| assert_equal [*"0".."9"], Array.new(10) { peer.message[0] } }
      eventually { served.used[:output].zero? }
    end
  end

  HELD = { output_bytes_limit: "4M", requests_limit: 9, write_timeout_s: 600 }.freeze

  # A response holds the budget; a stuck socket holds some of it and gives nothing back.
  def test_a_publisher_goes_on_when_another_protocol_gives_memory_back
    serve(Room.new(backlog_bytes_limit: "8M"), buffers: 20_000, limits: HELD) do |served|
      stuck = enter(served, "/room")
      client = connect(served).request("GET /long HTTP/1.1")
      client.take_through("\r\n\r\n")
      eventually { served.used[:output] > 4 << 20 }
      published = Thread::Queue.new
      served.on_loop { Fiber.schedule { published << Gyre::Broadcast.publish("room", "x" * 300_000) } && nil }
      eventually { served.on_loop { served.server.stats[:publishers_held] } == 1 }
      client.take(6_000_000)
      eventually { !published.empty? }
      stuck.client.reset
    end
  end

  def test_a_threads_burst_reaches_clients_that_read
    serve(Room.new) do |served|
      peer = enter(served, "/room")
      reader = Thread.new { Array.new(5000) { peer.message } }
      5000.times { |number| Gyre::Broadcast.publish("room", number.to_s) }
      assert_equal [*0...5000], reader.value.map(&:to_i)
    end
  end

  def test_one_publishers_messages_keep_their_order_also_of_kept_topics_and_before_a_disconnect
    keep(:burst_kept)
    serve(Room.new) do |served|
      peer = enter(served, "/burst_kept+plain")
      Gyre::Broadcast.publish("plain", "thread")
      served.on_loop do
        Gyre::Broadcast.publish("burst_kept", "1")
        Gyre::Broadcast.publish("plain", "2")
        Gyre::Broadcast.publish("burst_kept", "last")
        Gyre::Broadcast.disconnect("u")
        Gyre::Broadcast.publish("plain", "too late")
      end
      assert_equal %w[thread 1 2 last], Array.new(4) { peer.message }
      assert_equal [1008, "disconnected"], peer.closed
    end
  end

  def test_a_message_is_as_it_was_when_it_was_published
    keep(:burst_copied)
    serve(->(env) { Gyre::SSE.open(env, topics: [:burst_copied]) }) do |served|
      client = connect(served).request("GET / HTTP/1.1")
      client.take_through("\r\n\r\n:\n\n")
      eventually { Gyre::Broadcast.count(:burst_copied) == 1 }
      buffer = +""
      served.on_loop { %w[first second].each { |text| Gyre::Broadcast.publish(:burst_copied, buffer.replace(text)) } }
      assert_match(/data: first\n.*data: second\n/m, client.take_through("second\n\n"))
    end
  end

  # Publishers in fibers and threads, and in another process by the relay; subscribers that read at
  # once, with pauses, or not at all; sockets that come and go.
  def test_each_subscriber_that_is_not_cut_off_has_each_message_once_and_in_its_publishers_order
    random = Random.new(Integer(ENV.fetch("GYRE_SEED", 38)))
    serve(Room.new(backlog_bytes_limit: 200_000), buffers: 20_000, limits: { output_bytes_limit: "1M" }) do |served|
      steady = Array.new(4) { enter(served, "/model") }.map { |peer| follow(peer, pause_s: [0, 0, 0.0005][random.rand(3)]) }
      stuck = Array.new(2) { enter(served, "/model+stuck") }
      sizes = Array.new(5) { Array.new(60) { random.rand(1..random.rand(2) * 30_000 + 50) } }
      sources = sizes.first(2).each_with_index.map { |own, index| Thread.new { served.on_loop { publish_all(index, own) } } }
      sources += sizes[2, 2].each_with_index.map { |own, index| Thread.new { publish_all(2 + index, own) } }
      sources << Thread.new { relay_all(4, sizes[4], "model#{served.object_id}") }
      most = 0
      watch = Thread.new { most = [most, served.used[:output]].max until sleep(0.001).nil? || sources.none?(&:alive?) }
      passing = Array.new(5) { enter(served, "/model").tap { sleep(0.001 * random.rand(5)) } }
      passing.each { |peer| peer.client.reset }
      [*sources, watch].each(&:value)
      # The limit, and a message of each source; TLS holds a copy of it for each of the 11 sockets.
      assert_operator most, :<, tls? ? (1 << 20) + (12 * sizes.sum(&:max)) : 2 << 20
      Gyre::Broadcast.publish("model", "end")
      steady.each do |reader|
        got = reader.value
        sizes.each_with_index do |own, index|
          assert_equal own.each_index.to_a, got.select { |source,| source == index }.map(&:last), "source #{index}"
        end
      end
      stuck.each { |peer| peer.client.reset }
      eventually { served.used[:output].zero? }
    end
  end

  private

  def keep(topic) = Gyre::Broadcast.keep(topic, 100)

  def enter(served, path)
    open_websocket(served, path).tap { |peer| assert_equal "in", peer.message }
  end

  def publish_all(source, sizes)
    sizes.each_with_index { |size, number| Gyre::Broadcast.publish("model", "#{source} #{number} ".ljust(size, "x")) }
  end

  # Passes messages on as a link to another process does.
  def relay_all(source, sizes, origin)
    sizes.each_with_index do |size, number|
      Gyre::Broadcast::Relay.receive([origin, number + 1, "text", "model", "#{source} #{number} ".ljust(size, "x"), {}])
    end
  end

  def follow(peer, pause_s:)
    Thread.new do
      got = []
      until (message = peer.message) == "end"
        got << message.split.first(2).map(&:to_i)
        sleep(pause_s) if pause_s.positive?
      end
      got
    end
  end
end

GyreTest::HTTPContract.run(BroadcastBursts, over: %i[http1 tls])
