# frozen_string_literal: true

# WebSockets as a client: with our server, plain and over TLS, with node's ws, and with servers that
# break the protocol.

require "test_helper"
require "gyre/websocket/client"
require "http/client/scripted_server"
require "websocket/foreign"

module WebSocketClientCases
  include GyreTest::WebSocketServing

  APP = lambda do |env|
    Gyre::WebSocket.open(env, protocols: %w[b a], message_bytes_limit: 2_000_000) do |socket|
      case env["PATH_INFO"]
      when "/close" then socket.close(3000, "bye")
      when "/ping" then socket.write(socket.ping(timeout: 30).negative?.to_s)
      when "/headers" then socket.write(env.values_at("HTTP_X_OWN", "HTTP_ORIGIN").inspect)
      else socket.each { |message| socket.write(message) }
      end
    end
  end

  def test_messages_of_each_kind_and_size_come_back
    open do |socket|
      ["h\u00e4h", "", "\x00\xff".b, "x" * 125, "x" * 126, "y" * 65_535, "z" * 65_536, "\x80".b * 1_000_000].each do |message|
        assert_equal message.bytesize, socket.write(message)
        answer = socket.read
        assert_equal [message.encoding, message], [answer.encoding, answer]
      end
      assert_raises(ArgumentError) { socket.write("\xff") }
      refute_predicate socket, :closed?
    end
  end

  def test_the_subprotocol_and_headers_are_agreed_on
    assert_equal "b", open(protocols: %w[x a b], &:protocol)
    assert_equal '["1", nil]', open("/headers", headers: { "x-own" => "1" }, &:read)
    assert_nil open(&:protocol)
  end

  def test_closes_of_both_sides
    open("/close") do |socket|
      assert_nil socket.read
      assert_equal [3000, "bye", true], [socket.code, socket.reason, socket.closed?]
      assert_raises(Gyre::WebSocket::ClosedError) { socket.write("x") }
    end
    open do |socket|
      socket.close(4001, "done")
      assert_equal [true, 4001, nil], [socket.closed?, socket.code, socket.read]
      socket.close
    end
    open { |socket| assert_raises(ArgumentError) { socket.close(1005) } }
  end

  def test_pings_of_both_sides
    open("/ping") { |socket| assert_equal "false", socket.read }
    open do |socket|
      reader = Gyre::Task.current.async { socket.read }
      assert_operator socket.ping(timeout: 30), :<, 30
      assert_raises(Gyre::TimeoutError) { socket.ping(timeout: 0) }
      socket.close
      assert_nil reader.wait
      assert_raises(Gyre::WebSocket::ClosedError) { socket.ping }
    end
  end

  def test_a_refusal_raises
    serve(->(_env) { [403, {}, ["no"]] }) do |served|
      assert_equal 403, assert_raises(Gyre::HTTP::Client::StatusError) { connect_to(served) }.response.status
    end
    serve(->(_env) { [200, {}, ["no"]] }) do |served|
      assert_match(/opened no WebSocket: it responded with 200/, assert_raises(Gyre::ProtocolError) { connect_to(served) }.message)
    end
    assert_raises(ArgumentError) { Gyre::WebSocket.connect("http://127.0.0.1/") }
  end

  def test_an_option_of_the_http_client_names_it
    error = assert_raises(ArgumentError) { Gyre::WebSocket.connect("wss://127.0.0.1/", tls: nil) }
    assert_match(/tls.*write client: Gyre::HTTP::Client\.new\(http2: false, tls: …\)/, error.message)
  end

  def test_a_lost_connection_is_made_again
    turns = [->(socket) { socket.close(1012) }, nil, ->(_) { raise "fault" }, ->(socket) { socket.read && socket.close(4000) }]
    app = ->(env) { (turn = turns.shift) ? Gyre::WebSocket.open(env, &turn) : [503, {}, []] }
    codes = []
    serve(app) do |served|
      value = connect_to(served, with: :keep_connected, retry_s: 0.001) do |socket|
        socket.write("x")
        socket.each { nil }
        codes << socket.code
      end
      assert_equal [[1012, 1011, 4000]] * 2, [codes, value]
      expect_errors(served, /fault/)
    end
  end

  def test_a_refusal_or_the_end_of_the_block_ends_it
    answers = [[101], [401, {}, []]]
    app = ->(env) { (answer = answers.shift).first == 101 ? Gyre::WebSocket.open(env) { |socket| socket.close(1001) } : answer }
    serve(app) do |served|
      refused = assert_raises(Gyre::HTTP::Client::StatusError) do
        connect_to(served, with: :keep_connected, retry_s: 0.001) { |socket| socket.each { nil } }
      end
      assert_equal 401, refused.response.status
    end
    serve(APP) { |served| assert_equal "left", connect_to(served, with: :keep_connected) { "left" } }
  end

  def test_redirects_to_each_kind_of_address_are_followed
    app = lambda do |env|
      next APP.call(env) if env["PATH_INFO"] == "/"

      scheme = env["PATH_INFO"].delete_prefix("/")
      [302, { "location" => scheme == "path" ? "/" : "#{scheme}#{"s" if tls?}://#{env["HTTP_HOST"]}/" }, []]
    end
    serve(app) do |served|
      %w[path http ws].each do |path|
        connect_to(served, "/#{path}") { |socket| assert_equal path, socket.write(path) && socket.read }
      end
      assert_raises(Gyre::HTTP::Client::RedirectError) { connect_to(served, "/ftp") }
    end
  end

  # It would drop the fields of a handshake (RFC 6455, section 4.1).
  def test_a_proxy_is_asked_for_a_tunnel
    relay = lambda do |peer|
      onward = TCPSocket.new("127.0.0.1", peer.head[/\ACONNECT 127\.0\.0\.1:(\d+) /, 1].to_i)
      peer.write("HTTP/1.1 200 OK\r\n\r\n")
      up = Thread.new { peer.copy_to(onward) }
      loop { peer.write(onward.readpartial(4096)) }
    ensure
      up&.kill&.join
      onward&.close
    end
    Object.new.extend(GyreTest::ScriptedServer).scripted(relay) do |proxy|
      serve(APP) { |served| connect_to(served, proxy: proxy.url) { |socket| assert_equal "hello", socket.write("hello") && socket.read } }
    end
  end

  def test_a_plain_thread_may_use_one
    serve(APP) do |served|
      socket = connect_to(served)
      socket.write("hello")
      assert_equal "hello", socket.read
      socket.close
      assert_equal 1000, socket.code
    end
  end

  private

  def connect_to(served, path = "/", with: :connect, proxy: nil, **options, &block)
    client = Gyre::HTTP::Client.new(http2: false, tls: tls? ? Gyre::TLS.client(verify: false) : nil, proxy: proxy)
    Gyre::WebSocket.public_send(with, "#{tls? ? "wss" : "ws"}://127.0.0.1:#{served.port}#{path}", client: client, **options, &block)
  ensure
    client.close
  end

  def open(path = "/", **options, &block)
    result = nil
    serve(APP) { |served| Gyre.run { result = connect_to(served, path, **options, &block) } }
    result
  end
end

class WebSocketClientTest < Minitest::Test
  include WebSocketClientCases
end

class WebSocketClientOverTLSTest < Minitest::Test
  include WebSocketClientCases

  def tls? = true
end

class WebSocketClientAndOthersTest < Minitest::Test
  include GyreTest::ForeignWebSockets

  SERVER = <<~JS
    const { WebSocketServer } = require("ws");
    const server = new WebSocketServer({ port: 0, host: "127.0.0.1", handleProtocols: () => "a" });
    server.on("connection", (socket) => { socket.on("message", (data, binary) => socket.send(data, { binary })); socket.ping(); });
    server.on("listening", () => console.log(server.address().port));
  JS
  KEY = /^sec-websocket-key: (.*)\r$/i
  ACCEPT = "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nconnection: keep-alive, Upgrade\r\nsec-websocket-accept: %s\r\n"

  def test_nodes_ws_as_a_server
    IO.popen([*node_ws, "-e", SERVER]) do |server|
      Gyre::WebSocket.connect("ws://127.0.0.1:#{server.gets.to_i}", protocols: %w[a]) do |socket|
        ["h\u00e4h", "\xff".b * 100_000].each do |message|
          socket.write(message)
          assert_equal message, socket.read
        end
        socket.close(3000, "bye")
        assert_equal [3000, "a"], [socket.code, socket.protocol]
      end
    ensure
      Process.kill(:TERM, server.pid)
    end
  end

  def test_wrong_handshakes_are_refused
    ["HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: x\r\n\r\n",
     ACCEPT.sub("WebSocket", "other") + "\r\n", ACCEPT.sub("keep-alive, Upgrade", "close") + "\r\n",
     "#{ACCEPT}sec-websocket-extensions: permessage-deflate\r\n\r\n", "#{ACCEPT}sec-websocket-protocol: c\r\n\r\n"].each do |response|
      scripted(response) do |url|
        assert_raises(Gyre::ProtocolError, Gyre::HTTP::Client::ProtocolError) { Gyre::WebSocket.connect(url, protocols: %w[a]) }
      end
    end
  end

  # What a server sends behind its head, and the code of the end.
  ENDS = { "masked" => ["\x81\x81aaaax", 1002], "reserved" => ["\xc1\x01x", 1002], "too long" => ["\x82\x7f\0\0\0\0\0\xff\xff\xff", 1009],
           "not UTF-8" => ["\x81\x01\xff", 1007], "a wrong close" => ["\x88\x01\x03", 1002], "a close without a code" => ["\x88\x00", 1005],
           "its end" => ["", 1006], "a cut frame" => ["\x81\x05abc", 1006], "a late fragment" => ["\x80\x01x", 1002] }.freeze

  def test_what_breaks_the_protocol_ends_it
    ENDS.each do |name, (bytes, code)|
      scripted("#{ACCEPT}\r\n", bytes.b) do |url|
        socket = Gyre::WebSocket.connect(url, message_bytes_limit: 1000)
        assert_nil socket.read, name
        assert_equal code, socket.code, name
        socket.close
      end
    end
  end

  def test_fragments_and_controls_between_them_come_byte_by_byte
    bytes = "\x01\x03one\x89\x02hi\x00\x00\x80\x03two\x88\x04\x0b\xb8ok".b
    received = scripted("#{ACCEPT}\r\n", bytes, apart: true) do |url|
      socket = Gyre::WebSocket.connect(url)
      assert_equal ["onetwo", nil, 3000, "ok"], [socket.read, socket.read, socket.code, socket.reason]
    end
    assert_equal [[0x8a, 0x82], [0x88, 0x82]], [received.unpack("CC"), received.byteslice(8, 2).unpack("CC")]
  end

  def test_a_silent_server_is_pinged_and_then_left
    received = scripted("#{ACCEPT}\r\n", "", waits: true) do |url|
      socket = Gyre::WebSocket.connect(url, idle_timeout_s: 0.02)
      assert_equal [nil, 1006], [socket.read, socket.code]
    end
    assert_equal 0x89, received.getbyte(0)
  end

  def test_a_close_ends_in_time_whatever_the_server_sends
    scripted("#{ACCEPT}\r\n", "\x81\x01a" * 1000, floods: true) do |url|
      socket = Gyre::WebSocket.connect(url, close_timeout_s: 0.05)
      socket.close
      assert_equal [1006, "the server did not close"], [socket.code, socket.reason]
    end
  end

  def test_a_close_ends_in_time_if_the_server_takes_nothing
    scripted("#{ACCEPT}\r\n", "", sleeps: true) do |url|
      socket = Gyre::WebSocket.connect(url, close_timeout_s: 0.05, idle_timeout_s: 0.05)
      assert_raises(Gyre::TimeoutError) { socket.write("x".b * 50_000_000) }
      assert_nil socket.close
      assert_equal 1006, socket.code
    end
  end

  def test_an_error_of_another_socket_reaches_the_caller_at_once
    scripted("#{ACCEPT}\r\n", "\x88\x02\x03\xe8".b) do |closed|
      scripted("#{ACCEPT}\r\n", "\x81\x03tok".b, waits: true) do |url|
        other = Gyre::WebSocket.connect(closed)
        assert_nil other.read
        assert_raises(Gyre::WebSocket::ClosedError) do
          Gyre::WebSocket.keep_connected(url, close_timeout_s: nil) { |socket| socket.each { |message| other.write(message) } }
        end
      end
    end
  end

  def test_a_close_ends_a_reader_in_time
    scripted("#{ACCEPT}\r\n", "", waits: true) do |url|
      Gyre.run do |task|
        socket = Gyre::WebSocket.connect(url, close_timeout_s: 0.05, idle_timeout_s: nil)
        reader = task.async { socket.read }
        socket.close
        assert_equal [nil, 1006], [reader.wait, socket.code]
      end
    end
  end

  private

  # Returns what the client has sent behind its request.
  def scripted(response, bytes = "", apart: false, waits: false, floods: false, sleeps: false)
    server = TCPServer.new("127.0.0.1", 0)
    ended = Queue.new
    script = Thread.new do
      socket = server.accept
      key = socket.gets("\r\n\r\n")[KEY, 1]
      head = response.sub("%s", Gyre::WebSocket::Handshake.accept(key))
      apart ? (head.b + bytes).each_char { |byte| socket.write(byte) } : socket.write(head.b + bytes)
      socket.write(bytes) while floods
      next "" if sleeps && ended.pop
      socket.shutdown(:WR) unless waits
      socket.read
    rescue Errno::ECONNRESET, Errno::EPIPE
      ""
    ensure
      socket&.close
    end
    yield "ws://127.0.0.1:#{server.local_address.ip_port}/"
    ended.push(true)
    script.value
  ensure
    server.close
    script.kill
  end
end
