# frozen_string_literal: true

# The chat of docs/realtime.md over two workers and TLS: both workers' clients hear each other.

require "test_helper"
require "openssl"
require "support/processes"
require "cluster/clusters"
require "websocket/serving"

class DocsRealtimeWorkersTest < Minitest::Test
  include GyreTest::Clusters

  CHAT = File.read(File.expand_path("../../docs/realtime.md", __dir__), encoding: "UTF-8")[/## A chat.*?^```ruby\n(.*?)^```$/m, 1]
  HANDSHAKE = "GET /garden HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n" \
              "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"

  def test_clients_of_two_workers_talk_over_tls
    peers = []
    Dir.mktmpdir("gyre") do |cache|
      cluster("-w", "2", "--tls", app: CHAT, env: { "XDG_CACHE_HOME" => cache }) do |_, program|
        port = Integer(program.text(:out)[%r{https://127.0.0.1:(\d+)}, 1])
        before = files(program)
        eventually { peers << enter(port) && files(program).zip(before).all? { |now, then_| now > then_ } }
        peers.last.write(GyreTest::WebSocketServing.frame(1, "hello"))
        peers.each do |peer|
          assert_equal "someone came to /garden", text_from(peer)
          nil until text_from(peer) == "hello"
        end
      ensure
        peers.each(&:close) # before the server's end, which would wait for them
      end
    end
  end

  private

  # Open files of each worker.
  def files(program)
    workers = GyreTest::Processes.children_of(program.pid).select { |pid| File.read("/proc/#{pid}/cmdline").start_with?("gyre: worker") }
    workers.sort.map { |pid| Dir.children("/proc/#{pid}/fd").size }
  end

  def enter(port)
    peer = OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", port)).tap { |socket| socket.sync_close = true }.connect
    peer.write(HANDSHAKE)
    assert_match(/\AHTTP\S+ 101 /, peer.gets("\r\n\r\n"))
    peer
  end

  # A server's short frame of text.
  def text_from(peer)
    head, length = peer.read(2).bytes
    assert_equal 0x81, head
    peer.read(length)
  end
end
