# frozen_string_literal: true

# Several log servers that feed one Redis Stream, also while Redis is away.

require "test_helper"
require "support/engines"
require "support/log_server"
require "support/redis_server"
require "oracle/log/records"

GyreTest::Engines.test_case("LogSeveralServersTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  def test_several_servers_feed_one_stream_and_each_stores_its_clients_records_once
    with_servers do |redis, first, second, _|
      send_records(first, 1..50)
      send_records(first, 30..60) # as if no answer had come for 30 to 50
      send_records(second, 61..80)
      assert_equal (1..80).map { |number| "message #{number}" }, read_in_group(redis, "readers")
    end
  end

  def test_while_redis_is_away_no_client_is_let_in_and_nothing_is_lost
    with_servers do |redis, first, _, servers|
      send_records(first, 1..10)
      redis.kill
      servers << (second = serve(redis))
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

  private

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
    2.times { servers << serve(redis) }
    yield redis, *servers, servers
  ensure
    servers&.each(&:stop)
    redis&.close
  end

  def serve(redis) = GyreTest::LogServer.new(default_log: { logfile: redis.url })

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

  # Without the servers' own notices: one refuses clients until it has read whom it knows.
  def read_in_group(redis, group)
    redis.call("XGROUP", "CREATE", "gyre", group, "0")
    found = []
    while (reply = redis.call("XREADGROUP", "GROUP", group, "one", "COUNT", 30, "STREAMS", "gyre", ">"))
      found.concat(reply[0][1].map { |entry, fields| redis.call("XACK", "gyre", group, entry) && fields.each_slice(2).to_h })
    end
    found.reject { |fields| fields["service"] == "gyre" }.map { |fields| fields["message"] }
  end
end
