# frozen_string_literal: true

require "test_helper"
require "gyre/http/client"
require "http/client/scripted_server"
require "timeout"

# Places of a pool return, whatever is raised wherever.
class HTTPClientPoolTest < Minitest::Test
  include GyreTest::ScriptedServer

  HELLO = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
  Stop = Class.new(StandardError)
  # Ways to end a thread's work at once.
  ENDS = { raise: -> { raise Stop }, kill: -> { Thread.current.kill } }.freeze

  ENDS.each do |name, ending|
    # Every second connection is stale: the server has ended it.
    define_method(:"test_a_#{name}_at_any_line_of_a_request_gives_its_place_back") do
      scripted(->(peer) { peer.head && peer.write(HELLO) && peer.head && peer.write(HELLO) }) do |server|
        client = make(server, connections_limit: 1, pool_timeout_s: 0.1)
        line = 0
        line += 1 while ends_at(line + 1, ending) { client.get("/") } && assert_equal("hello", client.get("/").body)
        assert_operator line, :>, 30
        client.close
        GC.start
        assert_empty pool(client).open
      end
    end
  end

  # Which requests end is by chance.
  def test_random_timeouts_kills_and_stops_lose_no_place
    random = Random.new(Minitest.seed)
    scripted(->(peer) { 3.times { peer.head && peer.write(HELLO) } }) do |server|
      client = make(server, connections_limit: 2, pool_timeout_s: 10)
      Array.new(4) { |index| Thread.new { storm(client, Random.new(random.seed + index)) } }.each(&:join)
      assert_equal "hello", client.get("/").body
      Gyre.run { |task| Array.new(30) { task.async { stopped(client, random) } }.each(&:wait) && assert_equal("hello", client.get("/").body) }
      client.close
      GC.start
      pools(client).each { |pool| assert_operator pool.open.size, :<=, 1 } # the collector may see a forgotten one on a stack
    end
  end

  def test_a_forgotten_response_makes_room_before_a_waiter_fails
    cut = HELLO.sub("5", "9")
    scripted(->(peer) { peer.write(peer.head.include?("/cut") ? cut : HELLO) && peer.head }) do |server|
      client = make(server, connections_limit: 1, pool_timeout_s: 0.2)
      3.times do
        # On another stack, which no later frame keeps alive.
        Fiber.new(blocking: false) { client.stream("GET", "/cut") && nil }.resume
        assert_equal "hello", client.get("/").body
        client.close
      end
    end
  end

  # A look at all places takes 0.1 ms if they are a thousand.
  def test_requests_that_wait_for_a_connection_do_not_look_at_all_places_each
    scripted(->(peer) { peer.write(HELLO) while peer.head }) do |server|
      client = make(server, connections_limit: 2)
      Gyre.run do |task|
        client.get("/")
        looks = 0
        pool(client).define_singleton_method(:open) { super().tap { looks += 1 } }
        Array.new(50) { task.async { client.get("/").body } }.each { |request| assert_equal "hello", request.wait }
        assert_operator looks, :<, 10
      end
    end
  end

  def test_a_connection_that_ends_makes_room_for_those_that_wait
    scripted(->(peer) { peer.head && peer.write(HELLO.sub("5", "9")) && peer.head }) do |server|
      client = make(server, connections_limit: 1)
      Gyre.run do |task|
        first = client.stream("GET", "/")
        waiting = Array.new(3) { task.async { client.get("/") { |response| response.each.first } } }
        from_s = monotonic_s
        first.close
        assert_equal ["hello"] * 3, waiting.map(&:wait)
        assert_operator monotonic_s - from_s, :<, 30
      end
    end
  end

  private

  def setup = @made = []
  def teardown = @made.each(&:close)
  def make(server, **options) = Gyre::HTTP::Client.new(server.url, proxy: nil, connect_timeout_s: 60, **options).tap { |client| @made << client }
  def pools(client) = client.instance_variable_get(:@homes).values.flat_map(&:pools)
  def pool(client) = pools(client).first

  # Runs the block in a thread up to the client's line number `line`. Returns false if it has fewer.
  def ends_at(line, ending)
    count = 0
    ended = false
    thread = Thread.new do
      victim = Thread.current
      trace = TracePoint.new(:line) do |point|
        next unless victim == Thread.current && point.path.include?("/lib/gyre/http/client") && (count += 1) == line

        ended = true
        ending.call
      end
      trace.enable { yield }
    rescue Stop, Gyre::HTTP::Client::Error
      nil
    end
    thread.report_on_exception = false
    thread.join
    ended
  end

  def storm(client, random)
    40.times do
      Timeout.timeout(0.0003 + (random.rand * 0.002)) { client.get("/") }
    rescue Timeout::Error, Gyre::HTTP::Client::Error
      nil
    end
  end

  def stopped(client, random)
    request = Gyre::Task.current.async { client.get("/") rescue nil }
    sleep(random.rand * 0.003)
    request.stop
  end
end
