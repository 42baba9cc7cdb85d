# frozen_string_literal: true

# Server-sent events as a client: the text of streams, whole and in bytes, and connections that go
# on where they were left.

require "test_helper"
require "gyre/sse/client"
require "http/h2/serving"

class SSEParserTest < Minitest::Test
  STREAM = "\uFEFFdata: one\n\n: comment\nevent: tick\r\nid: 7\rdata:a\ndata\ndata:  b\n\nid\ndata: x\n\n" \
           "id: a\0b\nretry: 1500\nretry: x\nevent: e\n\ndata: \u00e4\xff\n\ndata: never ended\n".b

  def test_events_are_the_same_whole_and_byte_by_byte
    expected = [["message", "one", nil], ["tick", "a\n\n b", "7"], ["message", "x", ""], ["message", "\u00e4\uFFFD", ""]]
    [[STREAM], STREAM.chars, STREAM.scan(/.{1,7}/mn)].each do |pieces|
      parser = Gyre::SSE::Parser.new
      events = []
      pieces.each { |piece| parser.parse(piece) { |event| events << event.to_a } }
      assert_equal expected, events
      assert_equal [1.5, ""], [parser.retry_s, parser.id]
    end
  end

  def test_a_cr_ends_a_line_at_once
    events = []
    parser = Gyre::SSE::Parser.new
    ["data: a\r\r", "data: b\r", "\n\r\ndata: c\r\n", "\r\n"].each { |piece| parser.parse(piece) { |event| events << event.data } }
    assert_equal %w[a b c], events
  end

  def test_an_event_without_end_is_refused
    parser = Gyre::SSE::Parser.new(limit: 100)
    assert_raises(Gyre::ProtocolError) { 20.times { parser.parse("data: 12345\n") { flunk } } }
    assert_raises(Gyre::ProtocolError) { Gyre::SSE::Parser.new(limit: 100).parse("x" * 101) { flunk } }
  end

  # Otherwise some megabytes would take minutes.
  def test_the_work_for_a_long_event_grows_with_its_length_only
    start = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    parser = Gyre::SSE::Parser.new
    150_000.times { parser.parse("x") { flunk } }
    parser.parse("\n") { flunk }
    25.times { parser.parse("data\n" * 10_000) { flunk } }
    assert_operator Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - start, :<, 5
  end
end

class SSEClientTest < Minitest::Test
  include GyreTest::H2Serving

  def test_a_stream_goes_on_after_its_connection_where_it_was_left
    seen = Thread::Queue.new
    app = lambda do |env|
      seen << env["HTTP_LAST_EVENT_ID"]
      next [503, { "retry-after" => "0" }, []] if seen.size == 2
      next [204, {}, []] if seen.size == 4

      Gyre::SSE.open(env, retry_s: 0.001) { |events| 2.times { |index| events.write("#{index}", id: "#{seen.size}-#{index}") } }
    end
    over_each(app) do |source|
      seen.clear
      assert_equal %w[0 1 0 1], source.each.map(&:data)
      assert_equal [nil, "1-1", "1-1", "3-1"], Array.new(4) { seen.pop }
      assert_equal "3-1", source.last_event_id
    end
  end

  def test_a_server_that_asks_for_no_pause_is_not_asked_at_full_speed
    over_each(->(env) { Gyre::SSE.open(env, retry_s: 0) { |events| events.comment("no event") } }) do |source|
      pauses = []
      source.define_singleton_method(:sleep) { |pause_s| (pauses << pause_s) && pauses.size == 3 && throw(:enough) }
      catch(:enough) { source.each { flunk } }
      assert_equal [0.0, 0.05, 0.1], pauses
    end
  end

  def test_a_block_that_leaves_ends_the_stream
    gone = Thread::Queue.new
    app = lambda do |env|
      Gyre::SSE.open(env) do |events|
        loop { events.write("x") && sleep(0.01) }
      ensure
        gone << true
      end
    end
    over_each(app) do |source|
      assert_equal "x", source.each.first.data
      assert gone.pop
    end
  end

  def test_what_sends_no_events_raises
    statuses = [[404, {}, []], [200, { "content-type" => "text/plain" }, []], [301, {}, []]]
    over_each(->(_env) { statuses.first.dup }) do |source|
      assert_raises(Gyre::HTTP::Client::StatusError) { source.each { flunk } }
      statuses.rotate!
      2.times { assert_raises(Gyre::ProtocolError) { source.each { flunk } } && statuses.rotate! }
    end
    assert_raises(Gyre::HTTP::Client::ConnectionError) { Gyre::SSE::Client.new("http://127.0.0.1:#{free_port}").each { flunk } }
  end

  private

  def over_each(app)
    serve(app) do |served|
      [false, true].each do |http2|
        Gyre.run do
          client = Gyre::HTTP::Client.new(http2: http2)
          yield Gyre::SSE::Client.new("http://127.0.0.1:#{served.port}/", client: client, retry_s: 0.001)
        ensure
          client&.close
        end
      end
    end
  end
end
