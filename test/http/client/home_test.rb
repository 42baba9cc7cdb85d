# frozen_string_literal: true

require "test_helper"
require "gyre/http/client"
require "http/client/scripted_server"

# Idle connections of all origins end, and pools without connections go.
class HTTPClientHomeTest < Minitest::Test
  include GyreTest::ScriptedServer

  HELLO = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
  KEPT = ->(peer) { peer.write(HELLO) while peer.head }

  def test_idle_connections_of_a_loop_end_after_their_time
    servers(3, KEPT) do |servers|
      client = make(keep_alive_timeout_s: 0.1)
      Gyre.run do
        servers.each { |server| client.get(server.url) }
        eventually { servers.all? { |server| server.closed == 1 } && pools(client).empty? }
        assert_equal "hello", client.get(servers.first.url).body
      end
    end
  end

  def test_idle_connections_that_servers_end_are_closed_and_their_pools_go
    servers(3, ->(peer) { peer.head && peer.write(HELLO) }) do |servers|
      client = make
      Gyre.run do
        servers.each { |server| client.get(server.url) }
        eventually { pools(client).empty? }
      end
    end
  end

  def test_idle_connections_of_threads_end_at_the_next_use_of_any_client
    servers(3, KEPT) do |servers|
      client = make(keep_alive_timeout_s: 0.05)
      other = make
      servers.first(2).each { |server| client.get(server.url) }
      eventually do
        other.get(servers.last.url)
        servers.first(2).all? { |server| server.closed == 1 }
      end
      assert_equal 0, servers.last.closed
    end
  end

  def test_all_idle_connections_together_have_a_limit
    servers(4, KEPT) do |servers|
      client = make(idle_connections_limit: 2)
      Gyre.run do
        servers.each { |server| client.get(server.url) }
        eventually { servers.map(&:closed) == [1, 1, 0, 0] }
      end
    end
  end

  def test_connections_that_become_idle_together_keep_within_the_limit
    all = Queue.new
    servers(1, ->(peer) { peer.write(HELLO) while peer.head && all << true && eventually { all.size >= 8 } }) do |(server)|
      client = make(idle_connections_limit: 3)
      Gyre.run do |task|
        Array.new(8) { task.async { client.get(server.url) } }.each(&:wait)
        eventually { server.closed == 5 }
        assert_equal 3, pools(client).sum(&:idle)
      end
    end
  end

  def test_the_servers_own_idle_time_counts
    { "timeout=0" => 2, "max=5, timeout=100" => 1, "max=5" => 1 }.each do |hint, connections|
      servers(1, ->(peer) { peer.write(HELLO.sub("\r\n\r\n", "\r\nKeep-Alive: #{hint}\r\n\r\n")) while peer.head }) do |(server)|
        client = make
        2.times { assert_equal "hello", client.post(server.url).body }
        assert_equal connections, server.accepted, hint
      end
    end
  end

  def test_a_loop_ends_at_once_although_connections_are_idle
    servers(1, KEPT) do |(server)|
      client = make
      from_s = monotonic_s
      Gyre.run { client.get(server.url) }
      assert_operator monotonic_s - from_s, :<, 30
      assert_equal "hello", Gyre.run { client.get(server.url).body }
    end
  end

  private

  def setup = @made = []
  def teardown = @made.each(&:close)
  def make(**options) = Gyre::HTTP::Client.new(proxy: nil, connect_timeout_s: 60, **options).tap { |client| @made << client }
  def pools(client) = client.instance_variable_get(:@homes).values.flat_map(&:pools)

  def servers(count, script, made = [], &block)
    return block.call(made) if made.size == count

    scripted(script) { |server| servers(count, script, [*made, server], &block) }
  end
end
