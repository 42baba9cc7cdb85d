# frozen_string_literal: true

require "test_helper"
require "gyre/log/client"
require_relative "fake_server"
require_relative "../support/engines"
require "tmpdir"

GyreTest::Engines.test_case("LogClientTest") do
  def setup
    @spool = Dir.mktmpdir
  end

  def teardown
    FileUtils.rm_rf(@spool)
  end

  def client(server, service = "app", **options)
    reports = (@reports ||= [])
    client = Gyre::Log::Client.new(service, port: server.port, spool: @spool, retry_interval: 0.02..0.1,
                                            report: ->(text) { reports << text }, **options)
    yield client
  ensure
    client&.close(0)
  end

  def test_messages_arrive_in_order_with_service_severity_and_time
    GyreTest::FakeLogServer.open do |server|
      client(server) do |client|
        before = Time.now
        client.info("hello")
        client.log("notice", "café")
        client.log(:warn, "")
        client.error { "made" }
        assert client.flush
        assert_equal [%w[app info hello], ["app", "notice", "café".b], ["app", "warn", ""], %w[app error made]],
          server.records.map { |record| [record.service, record.severity, record.message] }
        assert_equal [1, 2, 3, 4], server.records.map(&:sequence)
        assert_in_delta before.to_f, server.records.first.time_us / 1e6, 30
      end
    end
  end

  def test_the_old_wire
    GyreTest::FakeLogServer.open do |server|
      client(server, acknowledged: false) do |client|
        client.info("hello")
        client.log("notice", "café: x")
        assert client.flush
        eventually { server.frames.size == 2 }
        assert_equal [%w[app info hello], ["app", "notice", "café: x".b]], server.frames.map(&:to_a)
      end
    end
  end
end
