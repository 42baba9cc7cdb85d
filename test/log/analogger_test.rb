# frozen_string_literal: true

# The names of the analogger gem's client, in programs of their own (both define
# Swiftcore::Analogger::Client); and our clients against that gem's server.
require "test_helper"
require "gyre/log/client"
require_relative "fake_server"
require_relative "peers"

class LogAnaloggerTest < Minitest::Test
  include GyreTest::LogPeers

  NAMESAKE = GyreTest::LogPeers::NAMESAKE

  # Runs a program that has `client`, which logs to the port.
  def with_names(port, code, *arguments)
    folder = log_folder
    output = run_client(NAMESAKE, folder, <<~RUBY, port, *arguments)
      $stdout.sync = true
      Names = Swiftcore::Analogger::Client
      client = Names.new("app", "127.0.0.1", Integer(ARGV[0]), ARGV[1])
      #{code}
    RUBY
    assert_match(/\A(?:gyre log: the client of "app" was closed before its last messages; they are sent late\n)?\z/, output.err)
    output.out
  end

  def test_the_methods_of_the_original
    GyreTest::FakeLogServer.open(reply: "accepted\n") do |server|
      out = with_names(server.port, <<~'RUBY')
        client.log(:info, "one")
        client.log("debug", "two: \u00fc")
        p [client.authenticated?, client.closed?, client.total_count]
        client.close
        p [client.authenticated?, client.closed?]
        p client.reconnect
        client.log("info", "three")
        client.close
        client.log("info", "four")
        p client.total_count
      RUBY
      assert_equal "[true, false, 2]\n[false, true]\ntrue\n4\n", out
      eventually { server.messages.size == 4 }
      assert_equal [%w[app info one], ["app", "debug", "two: ü".b], %w[app info three], %w[app info four]], server.frames.map(&:to_a)
      assert_empty server.failures
    end
  end

  def test_the_settings_of_the_original
    GyreTest::FakeLogServer.open do |server|
      out = with_names(server.port, <<~'RUBY')
        names = %i[connection_failure_timeout max_failure_count persistent_queue_limit reconnect_throttle_interval ram_queue_limit]
        p names.map { |name| Names.public_send(name) } == [172_800, (1 << 62) - 1, 10_737_412_742, 0.1, 16 << 20]
        p names.map { |name| client.public_send(name) } == names.map { |name| Names.public_send(name) }
        Names.persistent_queue_limit = 1_000_000
        Names.reconnect_throttle_interval = 0.2
        Names.tmplog = File.join(ENV["TMPDIR"], "here", "x.log")
        second = Names.new("second", "127.0.0.1", Integer(ARGV[0]))
        p [second.persistent_queue_limit, second.reconnect_throttle_interval, client.reconnect_throttle_interval]
        p second.tmplog == Names.tmplog, second.instance_variable_get(:@options).spool == File.dirname(Names.tmplog)
        second.max_failure_count = 3
        p [second.max_failure_count, client.max_failure_count > 3]
      RUBY
      assert_equal "true\ntrue\n[1000000, 0.2, 0.1]\ntrue\ntrue\n[3, true]\n", out
    end
  end

  def test_a_wrong_key_is_raised_by_new
    GyreTest::FakeLogServer.open(reply: "denied\n") do |server|
      output = run_client(NAMESAKE, log_folder, <<~'RUBY', server.port)
        begin
          Swiftcore::Analogger::Client.new("app", "127.0.0.1", Integer(ARGV[0]), "wrong")
        rescue Swiftcore::Analogger::Client::FailedToAuthenticate => error
          print error.message
        end
      RUBY
      assert_match(/refuses the key/, output.out)
    end
  end

  def test_without_a_server_it_logs_to_the_spool_or_raises_when_set_to
    port = free_port
    out = with_names(port, <<~'RUBY')
      p [client.authenticated?, client.log("info", "kept")]
      sleep 0.01 until client.stats[:spooled] == 1
      client.max_failure_count = 0
      begin
        client.reconnect
      rescue SystemCallError => error
        p error.class
      end
    RUBY
    assert_equal "[false, true]\nErrno::ECONNREFUSED\n", out
  end

  # --- the gem's server ---

  def our_client(server, **options)
    Gyre::Log::Client.new("app", port: server.port, spool: log_folder, retry_interval: 0.02..0.1, **options)
  end

  def test_the_gems_server_takes_what_our_client_logs
    server = log_server(GyreTest::LogPeers::ANALOGGER, { "key" => "secret" })
    client = our_client(server, key: "secret", acknowledged: false)
    texts = (0...500).map { |number| "message #{number}: ü #{"x" * (number * 7)}" } + ["", "a:b:c"]
    texts.each { |text| client.info(text) }
    client.log("notice", "is no level of the server's")
    client.error("last")
    client.close
    eventually { server.messages.last == "last" }
    assert_equal [*texts.map(&:b), "last"], server.messages
    assert_equal "app|error|last", server.lines.last.split("|", 2).last
  ensure
    client&.close(0)
  end

  def test_the_gems_server_is_known_by_its_answer
    server = log_server(GyreTest::LogPeers::ANALOGGER)
    strict = our_client(server, report: ->(_) {})
    assert_raises(Gyre::Log::Incompatible) { strict.connect(30) }
    either = our_client(server, acknowledged: :if_possible)
    assert either.connect(30)
    either.info("hello")
    assert_raises(ArgumentError) { either.info("x" * 9000) }
    assert either.flush(30)
    eventually { server.messages.last == "hello" }
  ensure
    strict&.close(0)
    either&.close(0)
  end

  def test_the_gems_server_refuses_a_wrong_key
    server = log_server(GyreTest::LogPeers::ANALOGGER, { "key" => "secret" })
    client = our_client(server, key: "wrong", acknowledged: false, report: ->(_) {})
    assert_raises(Gyre::Log::Denied) { client.connect(30) }
  ensure
    client&.close(0)
  end
end
