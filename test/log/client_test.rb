# frozen_string_literal: true

# A client that has its server: what arrives, over both protocols, and from where one may log.
# Outages, processes and Logger's methods have their own tests.
require "test_helper"
require "gyre"
require "support/openssl_peer"
require_relative "fake_server"
require_relative "with_clients"
require_relative "../support/certificates"
require_relative "../support/engines"

GyreTest::Engines.test_case("LogClientTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  include GyreTest::WithLogClients

  def both_protocols(**options)
    [true, false].each do |acknowledged|
      GyreTest::FakeLogServer.open(**options) do |server|
        client(server, acknowledged: acknowledged) { |client| yield client, server, acknowledged }
        assert_empty server.failures
      end
    end
  end

  def test_messages_arrive_in_order_with_service_severity_and_time
    GyreTest::FakeLogServer.open do |server|
      client(server) do |client|
        assert client.connect(30)
        before = Time.now
        client.info("hello")
        client.log("notice", "café")
        client.log(:warn, "")
        client.error { "made" }
        assert client.flush(30)
        assert_equal [%w[app info hello], ["app", "notice", "café".b], ["app", "warn", ""], %w[app error made]],
          server.records.map { |record| [record.service, record.severity, record.message] }
        assert_equal [1, 2, 3, 4], server.records.map(&:sequence)
        assert_in_delta before.to_f, server.records.first.time_us / 1e6, 30
        assert_equal({ state: :connected, logged: 4, sent: 4, acknowledged: 4, spooled: 0, dropped: 0, reconnects: 0, queue_bytes: 0,
                       spool_bytes: 0 }, client.stats)
      end
      assert_empty Dir.children(@spool), "nothing is spooled while the server is there"
    end
  end

  def test_a_unix_socket_serves_as_tcp_does_also_through_an_outage
    path = File.join(@spool, "socket")
    GyreTest::FakeLogServer.open(path: path) do |server|
      client = Gyre::Log::Client.new("app", address: "unix://#{path}", spool: "#{@spool}/s", retry_interval: 0.02..0.1)
      client.info("one")
      assert client.flush(30)
      server.stop
      eventually { client.stats[:state] == :away }
      before = client.stats[:spooled] # the first one, if the connection was made late
      client.info("two")
      eventually { client.stats[:spooled] == before + 1 }
      assert_equal ["app@unix@#{path.gsub("/", "%2F")}@2"], Dir.children("#{@spool}/s").map { |name| name[/\A(.*)\.\h{32}\z/, 1] }
      server.start
      assert client.flush(30)
      assert_equal %w[one two], server.messages
      assert_includes client.inspect, "at unix://#{path}>"
      client.close
      assert_empty server.failures
    end
  end

  def test_addresses_and_what_stands_for_them
    to = ->(**options) { Gyre::Log::Address.new("a", **options).endpoint.to_s }
    assert_equal ["tcp://127.0.0.1:6766", "tcp://a:6766", "tcp://127.0.0.1:1"], [to.call, to.call(host: "a"), to.call(port: 1)]
    assert_equal ["tcp://a:1", "tcp://a:6766", "unix:///x", "unix://#{Dir.pwd}/x", "unix://@x"],
                 %w[tcp://a:1 a unix:///x unix://x unix://@x].map { |address| to.call(address: address) }
    [{ address: "unix://" }, { address: "udp://a:1" }, { address: "tcp://*:1" }, { address: "tcp://a:0" }, { address: "a", port: 1 },
     { address: "unix://#{"a" * 107}" }] # the folder that it stands for comes before it
      .each { |options| assert_raises(ArgumentError, options.inspect) { to.call(**options) } }
  end

  def test_texts_arrive_as_they_were
    texts = ["", "ü€😀", "a:b|c\\n", "two\nlines\r\n", "\0\x01\x7F", "bytes \xFF\xFE".b, "broken \xFF", "x" * 8000]
    both_protocols do |client, server|
      texts.each { |text| client.info(text) }
      client.info("Grüße".encode("ISO-8859-1"))
      client.info("Grüße".encode("UTF-16LE"))
      client.info(:symbol)
      client.info(nil)
      assert client.flush(30)
      eventually { server.messages.size == texts.size + 4 }
      assert_equal [*texts.map(&:b), "Grüße".b, "Grüße".b, ":symbol", "nil"], server.messages
    end
  end

  def test_long_messages_are_carried_by_records_only
    both_protocols do |client, server, acknowledged|
      long = ["x" * 100_000, "y" * 1_000_000]
      if acknowledged
        long.each { |text| client.info(text) }
        assert client.flush(30)
        assert_equal long, server.messages
        assert client.info("\u00e9" * (1 << 20))
        assert client.flush(30)
        assert_match(/\A\u00e9+ \[cut: the message has 2097152 bytes\]\z/, server.messages.last.dup.force_encoding("UTF-8"))
        client.log("a:b", "colon")
      else
        long.each { |text| assert_raises(ArgumentError) { client.info(text) } }
        assert_match(/less than 8192/, assert_raises(ArgumentError) { client.info("z" * 8177) }.message)
        client.info("z" * (8191 - 11 - 7))
        assert_match(/colon/, assert_raises(ArgumentError) { client.log("a:b", "colon") }.message)
      end
      assert_raises(ArgumentError) { client.log("s" * 256, "x") }
      client.info("after it")
      assert client.flush(30)
      eventually { server.messages.last == "after it" }
    end
  end

  def test_what_a_frame_cannot_carry_is_refused_until_the_server_shows_that_it_acknowledges
    GyreTest::FakeLogServer.open(start: false) do |server|
      client(server, acknowledged: :if_possible) do |client|
        assert_raises(ArgumentError) { client.info("x" * 9000) }
        server.start
        assert client.connect(30)
        client.info("x" * 9000)
        assert client.flush(30)
        server.stop
        eventually { client.stats[:state] == :away }
        client.info("y" * 9000)
        client.info("after it")
        server.reply = "accepted\n" # an old server in its place
        server.start
        assert client.flush(30)
        eventually { server.messages.last == "after it" }
        assert_equal ["x" * 9000, "after it"], server.messages
        assert_equal 1, client.stats[:dropped]
        assert_match(/1 message is dropped/, @reports.join)
      end
    end
  end

  def test_many_threads
    both_protocols do |client, server|
      threads = Array.new(8) { |name| Thread.new { 250.times { |number| client.info("#{name} #{number}") } } }
      threads.each(&:join)
      assert client.flush(30)
      eventually { server.messages.size == 2000 }
      8.times { |name| assert_equal (0...250).map { |number| "#{name} #{number}" }, server.messages.grep(/\A#{name} /) }
    end
  end

  def test_fibers_of_a_scheduler_log_and_wait_without_stopping_others
    GyreTest::FakeLogServer.open(acknowledge: 0.001) do |server|
      client(server, memory_limit: 8192) do |client|
        turns = 0
        Gyre.run do |task|
          client.connect(30)
          ticker = task.async { loop { (turns += 1) && sleep(0.001) } }
          loggers = Array.new(4) { |name| task.async { 100.times { |number| client.info("#{name} #{number}") } } }
          loggers.each(&:wait)
          assert client.flush(30)
          ticker.stop
        end
        assert_equal 400, server.messages.size
        assert_operator turns, :>, 10
      end
    end
  end

  def test_a_task_that_waits_for_the_server_can_be_stopped
    GyreTest::FakeLogServer.open(acknowledge: :never) do |server|
      client(server) do |client|
        ended_by = nil
        Gyre.run do |task|
          client.info("a")
          waiting = task.async do
            client.flush(30)
          rescue Exception => error # rubocop:disable Lint/RescueException -- whatever it is
            ended_by = error.class
            raise
          end
          eventually { server.messages == %w[a] }
          waiting.stop
          waiting.wait
        end
        assert_equal Gyre::Stop, ended_by
      end
    end
  end

  def test_fibers_of_one_that_was_made_elsewhere
    GyreTest::FakeLogServer.open do |server|
      client(server) do |client|
        Gyre.run { client.info("in") }
        client.info("out")
        Thread.new { Gyre.run { client.info("there") && client.flush(30) } }.join
        assert_equal %w[in out there], server.messages
      end
    end
  end

  def test_flush_returns_whether_the_time_was_too_short
    GyreTest::FakeLogServer.open(acknowledge: :never) do |server|
      client(server) do |client|
        client.info("a")
        refute client.flush(0.05)
        refute client.flush(0.1)
      end
    end
  end

  def test_connect_returns_whether_there_is_a_server
    GyreTest::FakeLogServer.open(start: false) do |server|
      client(server) do |client|
        refute client.connect(0.05)
        server.start
        assert client.connect(30)
        assert client.reconnect
      end
    end
  end

  def test_what_one_reads_of_it_holds_no_key
    GyreTest::FakeLogServer.open do |server|
      client(server, key: "secret!") do |client|
        refute_match(/secret!/, client.inspect)
        assert_match(/app.*127\.0\.0\.1/, client.inspect)
      end
    end
  end

  def test_tls
    certificates = GyreTest::Certificates.new(@spool)
    certificate, key = certificates.issue("server")
    tls = GyreTest::OpenSSLPeer.server(cert: certificate, key: key)
    spool = File.join(@spool, "spool")
    [true, false].each do |acknowledged|
      GyreTest::FakeLogServer.open(tls: tls) do |server|
        client(server, tls: { ca: certificates.authority }, spool: spool, acknowledged: acknowledged) do |client|
          assert client.connect(30), client.trouble.inspect
          assert_nil client.trouble
          500.times { |number| client.info("#{number} #{"x" * 1000}") }
          assert client.flush(30)
          eventually { server.messages.size == 500 }
          assert_equal (0...500).to_a, server.messages.map(&:to_i)
        end
        client(server, tls: { ca: certificates.authority("stranger") }, spool: spool) do |client|
          client.info("kept")
          eventually { client.stats[:state] == :away }
          assert_kind_of Gyre::TLS::Error, client.trouble
          failures = client.instance_variable_get(:@sender).dialer.failures
          eventually { client.instance_variable_get(:@sender).dialer.failures > failures }
        end
        assert_match(%r{\ATLS handshake with tcp://127\.0\.0\.1:\d+: certificate verify failed}, @reports.first)
        assert_equal 1, @reports.size, "it is told once"
        @reports.clear
      end
    end
  end

  def test_arguments_are_checked_at_once
    assert_raises(ArgumentError) { Gyre::Log::Client.new("a:b") }
    assert_raises(ArgumentError) { Gyre::Log::Client.new("a", port: 0) }
    assert_raises(ArgumentError) { Gyre::Log::Client.new("a", port: 70_000) }
    assert_raises(ArgumentError) { Gyre::Log::Client.new("a" * 256, spool: @spool) }
    assert_raises(ArgumentError) { Gyre::Log::Client.new("a", when_full: :explode) }
    assert_raises(ArgumentError) { Gyre::Log::Client.new("a", memory_limit: 1) }
    assert_raises(ArgumentError) { Gyre::Log::Client.new("a", acknowledged: nil) }
    assert_raises(ArgumentError) { Gyre::Log::Client.new("a", level: "what") }
    assert_raises(ArgumentError) { Gyre::Log::Client.new("a", tls: { ca: "/missing" }) }
    assert_raises(ArgumentError) { Gyre::Log::Client.new("a", colour: "red") }
  end
end
