# frozen_string_literal: true

# Event streams, with a fiber and without, over each version of HTTP.

require "test_helper"
require "http/contract"
require "gyre/sse"
require "gyre/broadcast"

module SSEEvents
  include GyreTest::HTTPServing

  NEWS = ->(env) { Gyre::SSE.open(env, topics: [:news, env["PATH_INFO"]], retry_s: 2, as: :reader, headers: { "x-own" => "1" }) }

  def test_events_come_without_a_fiber
    serve(NEWS) do |served|
      client = listen(served)
      assert_match(%r{content-type: text/event-stream|^200$}i, @head)
      eventually { served.scheduler.stats[:tasks] == @tasks }
      assert_equal 1, Gyre::Broadcast.publish(:news, "two\nlines", event: "flash", id: 3)
      assert_equal "event: flash\nid: 3\ndata: two\ndata: lines\n\n", event(client)
      assert_equal 1, Gyre::Broadcast.publish("/", "both topics")
      assert_equal "data: both topics\n\n", event(client)
      assert_raises(EncodingError) { Gyre::Broadcast.publish(:news, "\xff".b) }
      client.close
      eventually { Gyre::Broadcast.count(:news).zero? && served.stats[:upgraded].zero? }
    end
  end

  # The collector may see a few of them on a stack.
  def test_a_stream_without_a_fiber_keeps_nothing_of_its_topics
    given = ObjectSpace::WeakMap.new
    app = lambda do |_env|
      topics = [:news]
      given[topics] = true
      Gyre::SSE.open({}, topics: topics)
    end
    serve(app) do |served|
      clients = Array.new(20) { listen(served) }
      eventually(what: "the collection of most topics") { GC.start.nil? && given.size < 10 }
      clients.each(&:close)
    end
  end

  def test_a_block_writes_and_the_stream_ends_with_it
    go = Thread::Queue.new
    app = lambda do |env|
      Gyre::SSE.open(env, retry_s: 2.5, headers: { "x-own" => "1" }) do |events|
        events.write("after #{events.last_event_id}", id: "8") << go.pop
        Thread.new { events.write("of a thread") }.join
        events.comment("bye")
      end
    end
    serve(app) do |served|
      client = connect(served)
      client.request(last_event_id: "7")
      assert_match(/^cache-control: no-cache, no-transform\r\nx-accel-buffering: no\r\nx-own: 1\r\n/, client.take_through("\r\n\r\n"))
      assert_equal ["retry: 2500\n\n", "id: 8\ndata: after 7\n\n"], Array.new(2) { event(client) }
      go << "more"
      assert_equal "data: more\n\ndata: of a thread\n\n:bye\n\n", client.rest
      client.close
      eventually { served.stats[:upgraded].zero? }
    end
  end

  def test_a_block_listens_and_learns_of_its_end_in_any_wait
    states = Thread::Queue.new
    app = lambda do |env|
      Gyre::SSE.open(env, heartbeat_s: 0.05) do |events|
        Gyre::Broadcast.subscribe(:news, events)
        env["PATH_INFO"] == "/" ? events.listen : sleep(0.01) until events.closed?
        states << [events.code, Gyre::Broadcast.count(:news), (events.write("late") rescue $!.class)]
      end
    end
    serve(app) do |served|
      %w[/ /sleeps].each do |path|
        client = connect(served)
        client.request("GET #{path} HTTP/1.1")
        client.take_through("\r\n\r\n")
        3.times { assert_equal ":\n\n", event(client) }
        eventually { Gyre::Broadcast.publish(:news, "two\nlines", event: "flash", id: 3) == 1 }
        text = ":\n\n"
        text = event(client) while text == ":\n\n"
        assert_equal "event: flash\nid: 3\ndata: two\ndata: lines\n\n", text
        client.close
        assert_equal [1006, 0, Gyre::WebSocket::ClosedError], states.pop
      end
    end
  end

  def test_a_stop_ends_blocks_in_order_and_what_they_wrote_arrives
    serve(->(env) { Gyre::SSE.open(env) { |events| events.write("x" * 100_000) && sleep } }) do |served|
      clients = Array.new(2) { listen(served) }
      stopping = Thread.new { served.on_loop { served.server.shutdown(30) } }
      clients.each do |client|
        assert_equal "data: #{"x" * 100_000}\n\n", client.rest
        client.close
      end
      assert_equal true, stopping.value
    end
  end

  def test_what_a_slow_client_has_not_taken_counts_in_the_servers_budget
    written = Thread::Queue.new
    app = ->(env) { Gyre::SSE.open(env) { |events| 200.times { |index| written << index if events.write("x" * 50_000) } } }
    serve(app, buffers: 20_000, limits: { output_bytes_limit: "100K" }) do |served|
      client = listen(served)
      eventually { served.used[:output].between?(30_000, 400_000) && served.stats[:upgraded] == 1 }
      assert_operator written.size, :<, 100
      assert_equal 200 * 50_008, client.rest.bytesize
      client.close
      eventually { served.used[:output].zero? && served.stats[:upgraded].zero? }
    end
  end

  def test_errors_of_a_block_are_logged_and_end_its_stream
    serve(->(env) { Gyre::SSE.open(env) { |events| events.write("first") && raise("oh") } }) do |served|
      client = listen(served) { nil }
      assert_equal "data: first\n\n", client.rest
      client.close
      expect_errors(served, /\Aan event stream: unhandled in the app: .*oh \(RuntimeError\)/m)
    end
  end

  def test_a_silent_stream_gets_comments
    serve(->(env) { Gyre::SSE.open(env, topics: [:none], heartbeat_s: 0.05) }) do |served|
      client = listen(served)
      3.times { assert_equal ":\n\n", event(client) }
    end
  end

  def test_a_stop_ends_them_in_order
    serve(NEWS) do |served|
      clients = Array.new(3) { listen(served) }
      Gyre::Broadcast.publish(:news, "x" * 100_000)
      stopping = Thread.new { served.on_loop { served.server.shutdown(30) } }
      clients.each do |client|
        assert_includes client.rest, "#{"x" * 100_000}\n\n"
        client.close
      end
      assert_equal true, stopping.value
    end
  end

  def test_those_of_one_subscriber_are_closed
    serve(NEWS) do |served|
      client = listen(served)
      assert_equal 1, Gyre::Broadcast.disconnect(:reader)
      assert_empty client.rest.delete(":\n")
      eventually { served.stats[:upgraded].zero? }
    end
  end

  def test_kept_topics_have_their_history
    Gyre::Broadcast.keep("kept by the test", 10)
    serve(->(env) { Gyre::SSE.open(env, topics: ["kept by the test"]) }) do |served|
      client = connect(served)
      client.request
      client.take_through("\r\n\r\n") unless http2?
      text = +""
      text << event(client) until text.match?(/^id: .*\n\n/)
      eventually { served.stats.values_at(:running, :upgraded) == [0, 1] }
      Gyre::Broadcast.publish("kept by the test", "now")
      text << event(client) until text.include?("data: now\n\n")
    end
  end

  def test_what_leaves_under_load_leaves_nothing
    serve(NEWS, limits: { output_bytes_limit: "1M" }) do |served|
      publisher = Thread.new { sleep(0.001) && Gyre::Broadcast.publish(:news, "x" * 1000) until Thread.current[:over] }
      4.times do
        clients = Array.new(10) { listen(served) { nil } }
        clients.each_with_index { |client, index| index.even? ? client.reset : client.close }
      end
      publisher[:over] = true
      publisher.join
      eventually { served.stats[:upgraded].zero? && served.used.values_at(:input, :output) == [0, 0] }
      assert_equal 0, Gyre::Broadcast.count(:news)
    end
  end

  # What only a client of HTTP/1 does.
  module HTTP1
    def test_a_client_that_takes_nothing_is_cut_off_and_holds_up_none
      serve(NEWS, buffers: 20_000) do |served|
        slow, quick = Array.new(2) { listen(served) }
        eventually do
          Gyre::Broadcast.publish(:news, "x" * 50_000)
          quick.take(50_008) && Gyre::Broadcast.count(:news) == 1
        end
        assert_operator served.on_loop { served.server.stats[:slow_sockets] }, :>=, 1
        slow.rest
        eventually { served.used[:output].zero? }
      end
    end

    def test_bytes_of_the_client_are_dropped
      serve(NEWS) do |served|
        client = listen(served)
        client.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 100)
        Gyre::Broadcast.publish(:news, "on")
        assert_equal "data: on\n\n", event(client)
      end
    end
  end

  private

  def event(client)
    text = +""
    text << client.take(1) until text.end_with?("\n\n")
    text
  end

  def listen(served)
    client = connect(served)
    @tasks ||= served.scheduler.stats[:tasks]
    client.request
    @head = client.take_through("\r\n\r\n") unless http2?
    @head ||= "200"
    assert_match(/\A(?:retry: 2000|:)\n\n\z/, event(client))
    eventually { block_given? || served.stats.values_at(:running, :upgraded).then { |running, open| running.zero? && open.positive? } }
    client
  end
end

GyreTest::HTTPContract.run(SSEEvents, over: %i[http1 tls http2 http2_tls])
