# frozen_string_literal: true

# A page in Chromium with a WebSocket and an EventSource, plain over HTTP/1.1, and over TLS within
# one connection of HTTP/2. Run by `rake test:browser`.

require "test_helper"
require "support/chromium"
require "http/contract"
require "websocket/serving"
require "gyre/sse"

class WebSocketBrowserTest < Minitest::Test
  include GyreTest::WebSocketServing

  PAGE = [200, { "content-type" => "text/html" }, ["<!doctype html><title>page</title><link rel=icon href=data:,>"]].freeze

  SOCKET = <<~JAVASCRIPT
    new Promise((resolve, reject) => {
      const socket = new WebSocket(location.origin.replace("http", "ws") + "/echo", ["v2", "v1"]);
      const found = [];
      socket.binaryType = "arraybuffer";
      socket.onerror = () => reject(new Error("the socket failed"));
      socket.onopen = () => { found.push(socket.protocol, socket.extensions !== ""); socket.send("häh"); };
      socket.onmessage = ({ data }) => {
        if (typeof data !== "string") { found.push(new Uint8Array(data)[0], data.byteLength); socket.close(4000, "done"); return; }
        found.push(data.length > 100 ? data.length : data);
        if (data === "häh") socket.send("long ".repeat(200000)); else socket.send(new Uint8Array(100000).fill(255));
      };
      socket.onclose = ({ code, wasClean }) => resolve([...found, code, wasClean]);
    })
  JAVASCRIPT

  CLOSED = <<~JAVASCRIPT
    new Promise((resolve) => {
      const socket = new WebSocket(location.origin.replace("http", "ws") + "/closing");
      socket.onclose = ({ code, reason, wasClean }) => resolve([code, reason, wasClean]);
    })
  JAVASCRIPT

  # The stream ends after three events; the page connects again by itself.
  EVENTS = <<~JAVASCRIPT
    new Promise((resolve) => {
      const events = new EventSource("/events"), seen = [];
      events.addEventListener("tick", ({ data, lastEventId }) => {
        seen.push([data, lastEventId]);
        if (seen.length === 5) { events.close(); resolve(seen); }
      });
    })
  JAVASCRIPT

  def test_a_page_over_http1
    skip_without_chromium
    serve(method(:answer), extended_connect: true) { |served| visit("http://localhost:#{served.port}/", "HTTP/1.1") }
  end

  def test_a_page_over_http2
    skip_without_chromium
    skip "this build has no HTTP/2" if GyreTest::H2Serving::BACKENDS.empty?
    @tls = true
    serve(method(:answer), identity: GyreTest::H2Serving.identity) do |served|
      visit("https://localhost:#{served.port}/", "HTTP/2.0")
    end
  end

  private

  def tls? = @tls || false

  def skip_without_chromium
    skip "WebSockets are not tested in a browser: no Chromium is installed (apt-get install chromium)" unless Chromium.program
  end

  def answer(env)
    case env["PATH_INFO"]
    when "/echo"
      @versions << env["SERVER_PROTOCOL"]
      Gyre::WebSocket.open(env, protocols: %w[v1 v2], compress: true, message_bytes_limit: "2M") do |socket|
        socket.each { |message| socket.write(message) }
      end
    when "/closing" then Gyre::WebSocket.open(env) { |socket| socket.close(3000, "bye") }
    when "/events"
      @versions << env["SERVER_PROTOCOL"]
      Gyre::SSE.open(env, retry_s: 0.01) do |events|
        seen = Integer(events.last_event_id || 0)
        (seen + 1..seen + 3).each { |number| events.write("number\n#{number}", event: "tick", id: number) }
      end
    else PAGE
    end
  end

  def visit(url, version)
    @versions = []
    Chromium.open(Chromium::ANY_CERTIFICATE) do |browser|
      browser.visit(url)
      assert_equal ["v1", true, "häh", 1_000_000, 255, 100_000, 4000, true], browser.evaluate(SOCKET)
      assert_equal [3000, "bye", true], browser.evaluate(CLOSED)
      assert_equal (1..5).map { |number| ["number\n#{number}", number.to_s] }, browser.evaluate(EVENTS)
      assert_empty browser.complaints
    end
    assert_equal [version], @versions.uniq
  end
end
