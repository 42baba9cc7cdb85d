# frozen_string_literal: true

# Server-sent events as a client: the text of streams, whole and in bytes, and connections that go
# on where they were left.

require "test_helper"
require "gyre/sse/client"
require "http/client/scripted_server"
require "http/h2/serving"
require "zlib"

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
  include GyreTest::ScriptedServer

  HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
  EVENT = "id: 1\ndata: one\n\n"

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

  def test_a_post_is_sent_once_and_its_events_are_read
    asked = 0
    app = lambda do |env|
      asked += 1
      [200, { "content-type" => "text/event-stream" }, ["data: #{env["rack.input"].read}\n\n", "data: end\n\n"]]
    end
    client = Gyre::HTTP::Client.new(app)
    source = Gyre::SSE::Client.new("/", client: client, method: :post, json: { a: 1 })
    assert_equal ["{\"a\":1}", "end"], source.each.map(&:data)
    read = client.post("/", "x") { |response| Gyre::SSE.each(response).map(&:data) }
    assert_equal [%w[x end], 2], [read, asked]
    client = Gyre::HTTP::Client.new(->(_env) { (asked += 1) && [503, {}, []] })
    assert_raises(Gyre::HTTP::Client::StatusError) { Gyre::SSE::Client.new("/", client: client, method: "POST", body: "x").each { flunk } }
    assert_equal 3, asked
  end

  def test_a_long_event_needs_a_higher_limit
    app = ->(_env) { [200, { "content-type" => "text/event-stream" }, ["data: ", *["x" * 500_000] * 4, "\n\n"]] }
    client = Gyre::HTTP::Client.new(app)
    assert_raises(Gyre::ProtocolError) { Gyre::SSE::Client.new("/", client: client).each { flunk } }
    event = Gyre::SSE::Client.new("/", client: client, event_bytes_limit: 4_000_000).each.first
    assert_equal 2_000_000, event.data.bytesize
  end

  def test_an_error_of_the_block_is_the_callers_and_its_event_is_not_seen
    app = ->(_env) { [200, { "content-type" => "text/event-stream" }, [EVENT, "id: 2\ndata: two\n\n"]] }
    source = Gyre::SSE::Client.new("/", client: Gyre::HTTP::Client.new(app))
    raised = Gyre::HTTP::Client::ConnectionError.new("of the block")
    assert_same raised, assert_raises(Gyre::HTTP::Client::ConnectionError) { source.each { |event| raise raised if event.data == "two" } }
    assert_equal "1", source.last_event_id
    source.each { |event| break if event.data == "two" }
    assert_equal "2", source.last_event_id
  end

  def test_a_stream_that_breaks_off_goes_on_after_its_last_event
    gzip = Zlib.gzip(EVENT)
    { "a cut length" => "#{HEAD}content-length: 500\r\n\r\n#{EVENT}",
      "no chunk" => "#{HEAD}transfer-encoding: chunked\r\n\r\n#{EVENT.bytesize.to_s(16)}\r\n#{EVENT}\r\n<html>",
      "cut gzip" => "#{HEAD}content-encoding: gzip\r\nconnection: close\r\n\r\n".b + gzip[0..-9] }.each do |name, script|
      again = lambda do |peer|
        head = peer.head
        peer.write(head.include?("last-event-id: 1") ? "#{HEAD}\r\ndata: again\n\n" : script)
      end
      scripted(again) do |server|
        source = Gyre::SSE::Client.new(server.url, client: Gyre::HTTP::Client.new(proxy: nil), retry_s: 0)
        assert_equal %w[one again], source.each.first(2).map(&:data), name
      end
    end
  end

  # A proxy does so when a backend has died.
  def test_a_stream_of_http2_that_is_reset_goes_on_after_its_last_event
    h2 = GyreTest::H2
    script = lambda do |peer|
      peer.read(h2::PREFACE.bytesize) && peer.write(h2.settings)
      [1, 3].each do |id|
        nil until peer.frame.then { |frame| frame.type == :headers && frame.stream == id }
        peer.write(h2.headers(id, [%w[:status 200], %w[content-type text/event-stream]], end_stream: false),
                   h2.data(id, EVENT.gsub("1", id.to_s), end_stream: false), h2.rst_stream(id, :internal_error))
      end
      peer.read(1)
    end
    scripted(script) do |server|
      client = Gyre::HTTP::Client.new(proxy: nil, http2: true)
      events = Gyre.run { Gyre::SSE::Client.new(server.url, client: client, retry_s: 0).each.first(2) }
      assert_equal %w[1 3], events.map(&:id)
      client.close
    end
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
