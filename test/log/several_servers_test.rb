# frozen_string_literal: true

# Several log servers that feed one Redis Stream: a client that goes from one to the other and sends
# again what it has no answer for.

require "test_helper"
require "io/wait"
require "json"
require "support/engines"
require "support/log_server"
require "support/redis_server"
require "oracle/log/records"

GyreTest::Engines.test_case("LogSeveralServersTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  def test_a_client_that_goes_from_server_to_server_is_stored_once
    with_servers do |redis, first, second|
      send_records(first, 1..50)
      send_records(second, 30..60) # as if no answer had come for 30 to 50
      send_records(first, 40..80)  # the first one does not know of 51 to 60 by itself
      assert_equal (1..80).map { |number| "message #{number}" }, read_in_group(redis, "readers")
      assert_equal 80, redis.call("XLEN", "gyre")
    end
  end

  def test_while_redis_is_away_no_client_is_let_in_and_nothing_is_lost
    with_servers do |redis, first, second|
      send_records(first, 1..10)
      redis.kill
      client = second.connect
      client.write(hello)
      assert_nil client.gets, "closed; the client tries again"
      client.close
      client = first.connect
      client.write(frame("web", "authentication", "") + frame("web", "info", "old wire"))
      eventually { first.report.include?("cannot store in it") }
      redis.start
      eventually { first.report.include?("it works again") }
      client.close
      send_records(second, 5..20)
      messages = redis.entries("gyre").reject { |fields| fields["service"] == "gyre" }.map { |fields| fields["message"] }
      assert_equal (1..20).map { |number| "message #{number}" }, messages - ["old wire"]
      assert_includes messages, "old wire"
    end
  end

  # Redis accepts and is silent: how long the client waits that is asked about does not matter here,
  # for no other one does.
  def test_while_redis_hangs_only_the_client_waits_that_it_is_asked_about
    with_patience_for_redis do |redis, server|
      client = server.connect
      client.write(hello)
      asked = eventually { redis.accept_nonblock(exception: false).then { |socket| socket unless socket == :wait_readable } }
      assert_equal "*3", asked.gets("\r\n", chomp: true)
      other = server.client("other")
      status = server.connect
      status.write(frame("", "authentication/2 status", ""))
      assert_equal "accepted 2\n", status.gets
      assert_equal %w[records analogger], JSON.parse(status.gets).fetch("clients").map { |each| each["kind"] }.first(2)
      assert_nil client.wait_readable(0), "it may not hear anything yet"
      asked.write("$-1\r\n")
      assert_equal "accepted 2\n", client.gets
    ensure
      [client, asked, other, status].compact.each(&:close)
    end
  end

  private

  # What Redis is, is for the test to say: a listening socket.
  def with_patience_for_redis
    redis = TCPServer.new("127.0.0.1", 0)
    patience = Gyre::Log::Output::RedisClients.send(:remove_const, :ASK_TIMEOUT_S)
    Gyre::Log::Output::RedisClients.const_set(:ASK_TIMEOUT_S, 1000)
    server = GyreTest::LogServer.new(default_log: { logfile: "redis://127.0.0.1:#{redis.local_address.ip_port}", options: { shared: true } })
    yield redis, server
  ensure
    server&.stop
    redis.close
    Gyre::Log::Output::RedisClients.send(:remove_const, :ASK_TIMEOUT_S)
    Gyre::Log::Output::RedisClients.const_set(:ASK_TIMEOUT_S, patience)
  end

  def id
    "0123456789abcdef0123456789abcdef"
  end

  def frame(*parts)
    Gyre::Log::Wire.frame(*parts)
  end

  def hello
    frame("web", "authentication/2 client=#{id}", "")
  end

  def with_servers
    redis = GyreTest::RedisServer.new(need_program("redis-server"), appendonly: "yes", appendfsync: "always")
    servers = []
    2.times { servers << GyreTest::LogServer.new(default_log: { logfile: redis.url, options: { shared: true } }) }
    yield redis, *servers
  ensure
    servers&.each(&:stop)
    redis&.close
  end

  # Until all are acknowledged.
  def send_records(server, numbers)
    client = let_in(server)
    numbers.each do |number|
      client.write(Gyre::Log::Records.encode(seq: number, time_us: 1_700_000_000_000_000, service: "web", severity: "info",
                                             message: "message #{number}"))
    end
    client.each_line.find { |line| line == "ack #{numbers.last}\n" } or flunk "closed before all was acknowledged: #{server.report}"
  ensure
    client&.close
  end

  # As a client does: again, when the server cannot store yet.
  def let_in(server)
    eventually(what: "the server lets its client in: #{server.report}") do
      client = server.connect
      client.write(hello)
      client.gets == "accepted 2\n" ? client : client.close
    end
  end

  def read_in_group(redis, group)
    redis.call("XGROUP", "CREATE", "gyre", group, "0")
    found = []
    while (reply = redis.call("XREADGROUP", "GROUP", group, "one", "COUNT", 30, "STREAMS", "gyre", ">"))
      found.concat(reply[0][1].map { |entry, fields| redis.call("XACK", "gyre", group, entry) && fields.each_slice(2).to_h["message"] })
    end
    found
  end
end
