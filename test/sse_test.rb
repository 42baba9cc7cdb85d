# frozen_string_literal: true

# Event streams: the text of events, and streams over each version of HTTP.

require "test_helper"
require "http/contract"
require "gyre/sse"
require "gyre/broadcast"

class SSEFormatTest < Minitest::Test
  def test_an_event_has_a_line_for_each_of_its_data
    assert_equal "data: one\n\n", Gyre::SSE.format("one")
    assert_equal "data: \n\n", Gyre::SSE.format("")
    assert_equal "event: tick\nid: 7\ndata: a\ndata: b\ndata: \ndata: c\ndata: \n\n", Gyre::SSE.format("a\nb\r\n\rc\n", event: "tick", id: 7)
  end

  def test_what_would_break_an_event_is_refused
    [{ event: "a\nb" }, { id: "a\rb" }, { id: "a\0" }].each do |options|
      assert_raises(ArgumentError) { Gyre::SSE.format("x", **options) }
    end
    assert_raises(ArgumentError) { Gyre::SSE.open({}) }
  end
end

class SSEBacklogTest < Minitest::Test
  # Counts in several threads; one lost update would leave bytes for good.
  def test_a_stream_that_many_threads_fill_counts_each_byte_once
    taken = Thread::Queue.new
    stream = Struct.new(:taken) { def write(text) = taken << text }.new(taken)
    events = Gyre::SSE::Events.new(stream, {}, 60)
    Gyre::Broadcast.subscribe("news", events)
    listener = Thread.new { events.listen }
    4.times.map { Thread.new { 500.times { Gyre::Broadcast.publish("news", "x" * 100) } } }.each(&:join)
    2000.times { taken.pop }
    assert_equal 0, events.instance_variable_get(:@backlog)
    events.close
    listener.join
  end
end

module SSEStreams
  include GyreTest::HTTPServing

  def test_events_come_as_they_are_written
    go = Thread::Queue.new
    app = lambda do |env|
      Gyre::SSE.open(env, retry_s: 2.5, headers: { "x-own" => "1" }) do |events|
        events.write("after #{events.last_event_id}", id: "8") << go.pop
        events.comment("bye")
      end
    end
    serve(app) do |served|
      response = stream(served, last_event_id: "7")
      assert_equal ["text/event-stream", "no-cache", "no", "1"], %w[content-type cache-control x-accel-buffering x-own].map { |name| response[name] }
      assert_equal "retry: 2500\n\n", piece
      assert_equal "id: 8\ndata: after 7\n\n", piece
      go << "more"
      assert_equal "data: more\n\n", piece
      assert_equal ":bye\n\n", piece
      assert_nil piece
    end
  end

  def test_a_stream_listens_and_beats
    app = lambda do |env|
      Gyre::SSE.open(env, heartbeat_s: 0.05) do |events|
        Gyre::Broadcast.subscribe(:news, events)
        events.listen
      end
    end
    serve(app) do |served|
      stream(served)
      2.times { assert_equal ":\n\n", piece }
      assert_equal 1, Gyre::Broadcast.publish(:news, "two\nlines", event: "flash", id: 3)
      beats_until("event: flash\nid: 3\ndata: two\ndata: lines\n\n")
      @client.close
      eventually { Gyre::Broadcast.count(:news).zero? }
    end
  end

  def test_a_stop_ends_streams_in_order
    serve(->(env) { Gyre::SSE.open(env, &:listen) }) do |served|
      stream(served)
      assert_equal ":\n\n", piece
      stopping = Thread.new { served.on_loop { served.server.shutdown(30) } }
      assert_nil piece
      assert stopping.value
    end
  end

  private

  def stream(served, **fields)
    @client = connect(served)
    @client.request(**fields)
    head = @client.take_through("\r\n\r\n")
    Response.new(200, head.split("\r\n").drop(1).map { |line| line.split(": ", 2) })
  end

  def piece = @client.chunk

  def beats_until(expected)
    nil while (text = piece) == ":\n\n"
    assert_equal expected, text
  end
  Response = GyreTest::HTTPServing::Response
  private_constant :Response
end

GyreTest::HTTPContract.run(SSEStreams, over: %i[http1 tls])
