# frozen_string_literal: true

# env["rack.upgrade"], as Iodine's apps use it.

require "test_helper"
require "http/contract"
require "websocket/serving"
require "gyre/rack_upgrade"

module RackUpgrades
  include GyreTest::WebSocketServing

  # Notes its calls; does what the message names.
  class Handler
    attr_reader :calls, :client

    def initialize
      @calls = Thread::Queue.new
    end

    def on_open(client)
      @client = client
      @calls << [:open, client.open?, client.env["PATH_INFO"], client.handler.equal?(self), client.pending]
      client.subscribe("all")
      client.write("welcome")
    end

    def on_message(client, message)
      case message
      when "publish" then client.publish("all", "to all")
      when "leave" then client.unsubscribe("all")
      when "close" then client.close
      else client.write(message)
      end
    end

    def on_shutdown(_client) = @calls << [:shutdown]

    def on_close(client) = @calls << [:close, client.open?, client.pending, client.write("late")]
  end

  def upgrading(handler, headers: {}, status: 200, **options)
    app = lambda do |env|
      env["rack.upgrade"] = handler
      [status, headers, [env["rack.upgrade?"].inspect]]
    end
    Gyre::RackUpgrade.new(app, **options)
  end

  def test_a_websocket
    handler = Handler.new
    serve(upgrading(handler, headers: { "set-cookie" => "a=b", "content-type" => "text/plain" })) do |served|
      peer = open_websocket(served, "/room")
      assert_equal ["a=b", nil], [peer.handshake["set-cookie"], peer.handshake["content-type"]]
      assert_equal [:open, true, "/room", true, 0], handler.calls.pop
      assert_equal "welcome", peer.message
      assert_equal "hi", peer.text("hi").message
      assert_equal "\xff".b, peer.binary("\xff").message
      assert_equal "to all", peer.text("publish").message
      assert_equal "on", peer.text("leave").text("publish").text("on").message
      assert_equal [1000, ""], peer.text("close").closed
      peer.close(1000)
      assert_equal [:close, false, -1, false], handler.calls.pop
    end
  end

  def test_an_event_stream
    handler = Handler.new
    serve(upgrading(handler)) do |served|
      client = connect(served).request("GET /news HTTP/1.1", accept: "text/event-stream")
      assert_includes client.take_through("\r\n\r\n"), "text/event-stream"
      assert_equal [:open, true, "/news", true], handler.calls.pop.first(4)
      Gyre::Broadcast.publish("all", "two\nlines")
      text = ":\n\ndata: welcome\n\ndata: two\ndata: lines\n\n"
      assert_equal text, client.take(text.bytesize)
      handler.client.close
      assert_empty client.rest
      client.close unless http2?
      assert_equal [:close, false, -1, false], handler.calls.pop
    end
  end

  def test_other_requests_and_refusals_are_the_apps
    handler = Handler.new
    serve(upgrading(handler)) { |served| assert_equal "nil", get(served).body }
    serve(upgrading(handler, status: 403)) do |served|
      response = get(served, "GET / HTTP/1.1", accept: "text/event-stream")
      assert_equal [403, ":sse"], [response.status, response.body]
    end
    none = Gyre::RackUpgrade.new(->(env) { [200, {}, [env["rack.upgrade?"].inspect]] })
    serve(none) { |served| assert_equal ":sse", get(served, "GET / HTTP/1.1", accept: "text/event-stream").body }
    assert_empty handler.calls
  end

  # Subscribes with a block, which answers for the page or fails.
  class Listening < Handler
    def on_open(client)
      client.subscribe(:listening) do |topic, message|
        raise NotImplementedError, "no such thing" if message == "fail"

        client.write("#{topic}: #{message}, #{(@events ||= []).push(message).size}")
      end
      client.write("in")
    end

    def on_message(client, message) = client.publish(:listening, message)
  end

  def test_a_block_of_subscribe_runs_as_an_event_instead_of_sending_the_message
    wrapped = Thread::Queue.new
    Gyre::Job.executor = Module.new { define_singleton_method(:wrap) { |&event| event.call.tap { |value| wrapped << value } } }
    serve(upgrading(Listening.new)) do |served|
      peer = open_websocket(served)
      assert_equal "in", peer.message
      before = wrapped.size
      assert_equal %w[listening:\ one,\ 1 listening:\ two,\ 2], peer.text("one").text("two").then { [peer.message, peer.message] }
      eventually { wrapped.size == before + 4 } # two of the client, two of the block
    end
  ensure
    Gyre::Job.executor = nil
  end

  def test_whatever_a_block_of_subscribe_raises_is_logged_and_ends_its_socket_alone
    serve(upgrading(Listening.new)) do |served|
      failing = open_websocket(served).tap(&:message)
      assert_equal 1011, failing.text("fail").closed.first
      expect_errors(served, /no such thing/)
      assert_equal "in", open_websocket(served).message
    end
  end

  def test_a_stop_is_told_before_the_close
    handler = Handler.new
    serve(upgrading(handler, close_timeout_s: 0.1)) do |served|
      open_websocket(served)
      handler.calls.pop
      assert_equal true, served.on_loop { served.server.shutdown(30) }
      assert_equal %i[shutdown close], Array.new(2) { handler.calls.pop.first }
    end
  end

  def test_a_handler_needs_no_method_and_pages_of_other_sites_are_refused
    serve(upgrading(Object.new, origins: ["https://a.test"])) do |served|
      open_websocket(served, origin: "https://a.test").text("into the void").close(1000).closed
      next if http2?

      assert_equal 403, get(served, **GyreTest::WebSocketServing::FIELDS, origin: "https://b.test").status
    end
  end
end

GyreTest::HTTPContract.run(RackUpgrades, over: %i[http1 http2])
