# frozen_string_literal: true

# The opening handshake: what is let in, and how others are refused.

require "test_helper"
require "rack"
require "rack/lint"
require "http/contract"
require "websocket/serving"

module WebSocketHandshakes
  include GyreTest::WebSocketServing

  FIELDS = GyreTest::WebSocketServing::FIELDS

  def test_the_key_is_answered
    serve(echo_app) do |served|
      handshake = open_websocket(served).handshake
      assert_equal ["s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "websocket", "upgrade", nil],
        %w[sec-websocket-accept upgrade connection content-length].map { |name| handshake[name] }
    end
  end

  def test_other_requests_are_refused
    refused = { { upgrade: "h2c" } => 426, { connection: "close" } => 426, { sec_websocket_version: "8" } => 426,
                { sec_websocket_key: "short" } => 400, { sec_websocket_key: "dGhlIHNhbXBsZSBub25jZR==" } => 400,
                { origin: "https://evil.test" } => 403, { origin: "null" } => 403 }
    serve(echo_app) do |served|
      refused.each do |fields, status|
        response = get(served, **FIELDS, **fields)
        assert_equal status, response.status, fields
      end
      assert_equal "13", get(served, **FIELDS, sec_websocket_version: "8")["sec-websocket-version"]
      assert_equal [426, "websocket"], get(served).then { |response| [response.status, response["upgrade"]] }
      assert_equal 426, get(served, "POST / HTTP/1.1", **FIELDS, content_length: "0").status
      assert_equal 400, get(served, "GET / HTTP/1.1", "hello", **FIELDS, content_length: "5").status
      assert_equal 400, get(served, "GET / HTTP/1.1", "0\r\n\r\n", **FIELDS, transfer_encoding: "chunked").status
    end
  end

  def test_the_servers_own_pages_may_open_it
    serve(echo_app) do |served|
      own = ["https://gyre.test", "https://GYRE.test:443"]
      own.push("http://gyre.test") unless tls? # a proxy may use TLS
      own.each { |origin| open_websocket(served, origin: origin) }
      open_websocket(served, host: "gyre.test:8080", origin: "https://gyre.test:8080")
      assert_equal 403, get(served, **FIELDS, origin: "http://gyre.test").status if tls?
      ["http://gyre.test:8080", "https://gyre.test.evil", "ftp://gyre.test", "gyre.test"].each do |origin|
        assert_equal 403, get(served, **FIELDS, origin: origin).status, origin
      end
    end
  end

  def test_origins_may_be_named
    serve(echo_app(origins: ["https://a.test", %r{\Ahttps://\w+\.b\.test\z}])) do |served|
      %w[https://a.test https://x.b.test].each { |origin| open_websocket(served, origin: origin) }
      %w[http://gyre.test https://b.test].each { |origin| assert_equal 403, get(served, **FIELDS, origin: origin).status }
    end
    serve(echo_app(origins: :any)) { |served| open_websocket(served, origin: "null") }
  end

  def test_a_subprotocol_that_both_speak_is_agreed_on
    serve(socket_app(protocols: %w[v2 v1]) { |socket| socket.write(socket.protocol.inspect) }) do |served|
      { "v1,v2" => "v2", " v0 , v1" => "v1", "v3" => nil }.each do |offered, agreed|
        peer = open_websocket(served, sec_websocket_protocol: offered)
        assert_equal [agreed.inspect, agreed&.then { |name| name }], [peer.message, peer.handshake["sec-websocket-protocol"]]
      end
    end
  end

  def test_middleware_may_add_headers_and_check_the_response
    app = Rack::Lint.new(->(env) { echo_app.call(env).tap { |response| response[1]["set-cookie"] = "a=b" } })
    serve(app) do |served|
      peer = open_websocket(served)
      assert_equal "a=b", peer.handshake["set-cookie"]
      assert_equal "hi", peer.text("hi").message
    end
  end

  def test_middleware_may_refuse_in_its_place
    app = ->(env) { echo_app.call(env).then { |_, headers, body| [403, headers, body] } }
    serve(app) do |served|
      response = get(served, **FIELDS)
      assert_equal 403, response.status
    end
  end

  def test_the_request_is_in_the_access_log_and_finished_at_once
    finished = Thread::Queue.new
    app = lambda do |env|
      env["rack.response_finished"] << ->(_env, status, _headers, error) { finished << [status, error] }
      echo_app.call(env)
    end
    serve(app, log_accesses: true) do |served|
      peer = open_websocket(served)
      assert_equal [101, nil], finished.pop
      assert_equal "hi", peer.text("hi").message
      assert_equal [101], served.accesses.map { |entry| entry[1] }
    end
  end

  def test_a_client_that_leaves_during_the_handshake_is_not_an_error
    serve(echo_app) do |served|
      20.times do
        client = connect(served)
        client.request("GET / HTTP/1.1", **FIELDS)
        client.reset
      end
      eventually { served.stats.values_at(:connections, :upgraded, :running) == [0, 0, 0] }
    end
  end

  def test_an_address_may_have_a_limit_of_sockets
    app = ->(env) { echo_app(address_limit: 2).call(env.merge("REMOTE_ADDR" => env["PATH_INFO"].delete("/"))) }
    serve(app) do |served|
      first, = Array.new(2) { open_websocket(served, "/192.0.2.1") }
      assert_equal 429, get(served, "GET /192.0.2.1 HTTP/1.1", **FIELDS).status
      %w[2001:db8::1 2001:db8::2%eth0 2001:db8:0:1::1 192.0.2.2 odd].each { |address| open_websocket(served, "/#{address}") }
      assert_equal 429, get(served, "GET /2001:db8::3 HTTP/1.1", **FIELDS).status
      first.close(1000).closed
      eventually { served.stats[:upgraded] == 6 }
      assert_equal "in", open_websocket(served, "/192.0.2.1").text("in").message
      100.times { |index| open_websocket(served, "/#{index}").client.reset }
      eventually { served.stats[:upgraded] == 7 }
      assert_operator Gyre::WebSocket::Addresses.instance_variable_get(:@sockets).size, :<, 100
    end
  end

  def test_wrong_arguments
    assert_raises(ArgumentError) { Gyre::WebSocket.open({}) }
    assert_raises(ArgumentError) { Gyre::WebSocket.open({}, Object.new) { nil } }
    error = assert_raises(ArgumentError) { Gyre::WebSocket.open({}, message_bytes: 3) { nil } }
    assert_match(/message_bytes_limit/, error.message)
  end
end

GyreTest::HTTPContract.run(WebSocketHandshakes, over: %i[http1 tls])
