# frozen_string_literal: true

# The PROXY protocol: its header in C alone, and a server behind a proxy that writes it.

require "test_helper"
require "openssl"
require "socket"
require "support/plain_c"
require "tmpdir"
require "gyre/web"
require "http/serving"
require "web/serving"

class ProxyProtocolTest < Minitest::Test
  include GyreTest::PlainC::Assertions
  include GyreTest::Serving

  V2 = "\r\n\r\n\0\r\nQUIT\n".b
  BINARY = V2 + "\x21\x11\0\x0c\xcb\0\x71\x09\x7f\0\0\1\x12\x34\x01\xbb".b # 203.0.113.9
  LINE = "PROXY TCP4 203.0.113.9 127.0.0.1 4711 443\r\n"
  REQUEST = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
  REMOTE = ->(env) { [200, {}, [env["REMOTE_ADDR"]]] }

  def test_the_parser_in_c
    assert_passes GyreTest::PlainC::PLAIN
  end

  def test_the_parser_with_sanitizers
    assert_passes GyreTest::PlainC::SANITIZED
  end

  def test_the_client_is_the_one_that_the_header_names
    {
      "v1" => [LINE, "PROXY TCP6 2001:db8::1 ::1 1 2\r\n"], "v2" => [BINARY], "any" => [LINE, BINARY]
    }.each do |version, headers|
      behind(version) do |server|
        headers.each { |header| assert_match(/\r\n\r\n(203\.0\.113\.9|2001:db8::1)\z/, exchange(server, header + REQUEST), version) }
      end
    end
  end

  def test_the_header_may_come_byte_by_byte_and_the_request_with_it
    behind("any") do |server|
      [LINE, BINARY].each do |header|
        client = connect(server)
        (header + REQUEST).each_char do |char|
          client.write(char)
          client.flush
        end
        assert client.read.end_with?("203.0.113.9")
        client.close
      end
    end
  end

  def test_a_proxy_that_speaks_for_itself_keeps_its_address
    behind("any") do |server|
      ["PROXY UNKNOWN\r\n", "PROXY UNKNOWN 1.1.1.1 2.2.2.2 1 2\r\n", "#{V2}\x20\0\0\0".b, "#{V2}\x21\0\0\0".b].each do |header|
        assert exchange(server, header + REQUEST).end_with?("127.0.0.1"), header.inspect
      end
    end
  end

  def test_without_a_header_or_with_another_version_the_connection_is_refused
    behind("v1") { |server| [REQUEST, BINARY + REQUEST, "PROXY TCP4 x\r\n"].each { |bytes| assert_empty exchange(server, bytes) } }
    behind("v2") { |server| [REQUEST, LINE + REQUEST].each { |bytes| assert_empty exchange(server, bytes) } }
    behind("any") do |server|
      assert_empty exchange(server, REQUEST)
      eventually { server.snapshot["malformed"] == 1 && server.snapshot["connections"]["open"].zero? }
      assert_equal 0, server.snapshot["requests"]
    end
  end

  # CVE-2026-47736: Puma collected a line without an end without a bound.
  def test_a_line_without_an_end_is_refused_after_its_longest_length
    behind("v1") do |server|
      client = connect(server)
      client.write("PROXY UNKNOWN #{"a" * 93}") # 107 bytes
      assert_empty read(client)
      client.close
    end
  end

  # CVE-2026-47737: Puma took a line before each request of a connection, from whoever sent them.
  def test_a_line_before_a_second_request_is_not_a_header
    behind("any") do |server|
      first = "GET / HTTP/1.1\r\nhost: a\r\n\r\n"
      answer = exchange(server, LINE + first + LINE.sub("203.0.113.9", "6.6.6.6") + REQUEST)
      assert_includes answer, "203.0.113.9HTTP/1.1 400 "
      refute_includes answer, "6.6.6.6"
    end
  end

  def test_a_client_that_sends_no_header_is_closed_in_time
    behind("any", limits: { handshake_timeout_s: 0.05 }) do |server|
      ["", "PROXY TC", V2].each do |beginning|
        client = connect(server)
        client.write(beginning)
        assert_empty read(client), beginning.inspect
        client.close
      end
    end
  end

  def test_a_client_that_leaves_in_the_header_leaves_nothing
    behind("any") do |server|
      3.times do
        client = connect(server)
        client.write("PROXY TCP4 203")
        client.close
      end
      eventually { server.snapshot.then { |snapshot| snapshot["accepted"] == 3 && snapshot["connections"]["open"].zero? } }
    end
  end

  def test_only_trusted_proxies_may_connect
    behind("any", trusted_proxy: ["10.0.0.0/8"]) do |server|
      assert_empty exchange(server, LINE + REQUEST)
      assert_equal 1, server.snapshot["refused"]
    end
    behind("any", trusted_proxy: ["127.0.0.0/8"]) { |server| assert exchange(server, LINE + REQUEST).end_with?("203.0.113.9") }
  end

  # What the proxy itself has sent of other headers does not count for the client that it names.
  def test_forwarding_headers_of_the_client_are_dropped
    request = REQUEST.sub("\r\n\r\n", "\r\nx-forwarded-for: 6.6.6.6\r\n\r\n")
    behind("any", trusted_proxy: ["127.0.0.1"]) { |server| assert exchange(server, LINE + request).end_with?("203.0.113.9") }
  end

  def test_it_comes_before_tls
    tls = GyreTest::HTTPServing.identity
    Dir.mktmpdir do |folder|
      paths = %i[cert key].to_h { |name| [name, File.join(folder, name.to_s)] }
      paths.each { |name, path| File.write(path, tls.fetch(name).respond_to?(:to_pem) ? tls.fetch(name).to_pem : tls.fetch(name)) }
      behind("any", scheme: "ssl", query: "&cert=#{paths[:cert]}&key=#{paths[:key]}") do |server|
        socket = connect(server)
        socket.write(BINARY)
        secure = OpenSSL::SSL::SSLSocket.new(socket, OpenSSL::SSL::SSLContext.new).connect
        secure.write(REQUEST)
        assert secure.read.end_with?("203.0.113.9")
        secure.close
        socket.close
      end
    end
  end

  def test_a_unix_socket_may_have_it_too
    Dir.mktmpdir do |folder|
      path = File.join(folder, "s")
      server = Gyre::Web::Server.new(REMOTE, bind: "unix://#{path}?mode=0600&proxy_protocol=v2").start
      client = UNIXSocket.new(path)
      client.write(BINARY + REQUEST)
      assert client.read.end_with?("203.0.113.9")
      client.close
      server.stop
      assert server.wait(60)
    end
  end

  def test_workers_have_it
    app = 'run ->(env) { [200, {}, [env["REMOTE_ADDR"]]] }'
    serve("-b", "tcp://127.0.0.1:0?proxy_protocol=v1", "-w", "1", app: app, port: false) do |program|
      client = TCPSocket.new("127.0.0.1", program.port)
      client.write(LINE + REQUEST)
      assert client.read.end_with?("203.0.113.9")
      client.close
    end
  end

  def test_an_invalid_version_or_no_place_for_it_is_refused
    assert_includes assert_raises(ArgumentError) { Gyre::Endpoint.parse("tcp://a:1?proxy_protocol=v3", proxy: true) }.message, "v1, v2 or any"
    assert_includes assert_raises(ArgumentError) { Gyre::Endpoint.parse("tcp://a:1?proxy_protocol=v1") }.message, "PROXY protocol is not supported"
    endpoint = Gyre::Endpoint.parse("tcp://a:1?proxy_protocol=v1", proxy: true)
    assert_equal ["tcp://a:1", "v1"], [endpoint.to_s, endpoint.proxy_protocol]
    refute_equal endpoint, Gyre::Endpoint.parse("tcp://a:1")
  end

  private

  def assert_passes(flags)
    assert_plain_c("proxy_protocol_test", flags)
  end

  def behind(version, scheme: "tcp", query: "", **options)
    server = Gyre::Web::Server.new(REMOTE, bind: "#{scheme}://127.0.0.1:0?proxy_protocol=#{version}#{query}", **options).start
    yield server
  ensure
    server&.stop(now: true)
    assert server.wait(60), "the server did not end" if server
  end

  def connect(server) = TCPSocket.new("127.0.0.1", server.endpoints.first.port)

  # Returns what came; a reset is an end, too.
  def read(client)
    client.read
  rescue Errno::ECONNRESET
    ""
  end

  def exchange(server, bytes)
    client = connect(server)
    client.write(bytes)
    read(client)
  rescue Errno::EPIPE, Errno::ECONNRESET
    ""
  ensure
    client&.close
  end
end
