# frozen_string_literal: true

# The analogger gem and Gyre with each other: its client against our server, and ours over the old
# protocol against its server.

require "test_helper"
require_relative "peers"

class LogAnaloggerGemTest < Minitest::Test
  include GyreTest::LogPeers

  ANALOGGER = GyreTest::LogPeers::ANALOGGER
  GYRE = GyreTest::LogPeers::GYRE
  NAMESAKE = GyreTest::LogPeers::NAMESAKE

  LOGS = [{ "service" => %w[a b], "levels" => "info,warn,extra", "logfile" => "ab.log", "cull" => true }].freeze

  def test_its_client_logs_to_our_server
    # Nothing is written before the end: when a write comes between the three that are equal, they
    # are counted differently.
    server = log_server(GYRE, { "logs" => LOGS, "key" => "sesame", "interval" => 600 })
    output = run_client(ANALOGGER, server.folder, <<~'RUBY', server.port)
      client = new_client(ARGV[0], "sesame")
      %w[debug info warn extra].each { |severity| client.log(severity, "as #{severity}") }
      3.times { client.log(:info, "again") }
      client.log("info", "two\nlines: and a colon")
      client.log("info", "x" * 8000)
      client.log("info", "")
      other = Swiftcore::Analogger::Client.new("other", "127.0.0.1", ARGV[0].to_i, "sesame")
      other.log("fatal", "to the default")
      p [client.authenticated?, client.total_count, client.closed?]
      [client, other].each(&:close)
      p client.closed?
      exit!(0)
    RUBY
    assert_equal "[true, 11, false]\ntrue\n", output.out, output.err
    assert_equal 0, server.stop(:TERM).exitstatus
    expected = ["as info", "as warn", "as extra", "again", "Last message repeated 2 times", "two\\nlines: and a colon", "x" * 8000, ""]
    assert_equal expected, server.messages("ab.log")
    assert_equal ["to the default"], server.messages(service: "other")
  end

  # Logs it, again and again, until it is in the file.
  def until_logged(server, client, message)
    eventually(what: message) do
      client.log(message)
      server.messages.include?(message)
    end
  end

  def test_its_client_is_denied_with_a_wrong_key
    server = log_server(GYRE, { "key" => "sesame" })
    output = run_client(ANALOGGER, server.folder, "p new_client(ARGV[0], 'wrong').authenticated?; $stdout.flush; exit!(0)", server.port)
    assert_equal "false\n", output.out, output.err
    eventually { server.read("default.log").include?("|gyre|") }
    assert_match(/127\.0\.0\.1/, server.lines.grep(/\|gyre\|/).first)
  end

  def test_its_client_comes_back_after_our_server_was_away
    server = log_server(GYRE)
    client = log_client(ANALOGGER, server.folder, server.port)
    client.log("before")
    eventually { server.messages.include?("before") }
    server.stop(:TERM)
    client.log("lost, as always", "lost, too", "kept 1", "kept 2")
    server.start
    until_logged(server, client, "mark")
    # Whether all that it kept comes, and once, is the gem's own affair (fault 5).
    messages = server.messages(service: "a").grep_v(/\Amark|repeated/)
    assert_equal "before", messages.first
    assert_empty messages - ["before", "lost, as always", "lost, too", "kept 1", "kept 2"]
  end

  # A client of ours for its server: by our names or by the original's.
  [GYRE.dup.tap { |peer| peer.new_client = GYRE.new_client.sub("key: key,", "key: key, acknowledged: false,") }, NAMESAKE].each do |peer|
    define_method("test_our_client_#{peer.name}_logs_to_its_server") do
      server = log_server(ANALOGGER, { "key" => "sesame" })
      run = run_client(peer, server.folder, <<~'RUBY', server.port)
        client = new_client(ARGV[0], "sesame")
        client.log("info", "ééé")
        client.log("info", "")
        client.log("warn", "a:b|c")
        client.log("info", "x" * 8000)
        p client.flush(20)
        [-> { client.log("info", "x" * 9000) }, -> { client.log("in:fo", "x") }].each do |refused|
          refused.call
        rescue ArgumentError => error
          puts error.class
        end
        client.close
      RUBY
      assert_equal "true\nArgumentError\nArgumentError\n", run.out, run.err
      eventually { server.messages.size == 4 }
      assert_equal ["ééé".b, "", "a:b|c", "x" * 8000], server.messages
    end

    define_method("test_our_client_#{peer.name}_keeps_what_its_server_was_away_for_three_times") do
      server = log_server(ANALOGGER)
      client = log_client(peer, server.folder, server.port)
      client.log("before")
      eventually { server.messages.any? }
      3.times do |outage|
        server.stop
        client.log("outage #{outage}, 1", "outage #{outage}, 2")
        server.start
        until_logged(server, client, "mark #{outage}")
      end
      kept = (0..2).flat_map { |outage| ["outage #{outage}, 1", "outage #{outage}, 2"] }
      assert_equal kept, server.messages.grep(/outage/)
    end
  end

  def test_our_client_asks_its_server_for_acknowledgements_in_vain
    server = log_server(ANALOGGER)
    run = run_client(GYRE, server.folder, <<~'RUBY', server.port)
      client = new_client(ARGV[0])
      begin
        client.log("info", "x")
        client.flush(20)
      rescue Gyre::Log::Incompatible => error
        $stdout.syswrite(error.message)
      end
      exit!
    RUBY
    assert_match(/does not support acknowledged logging; use `acknowledged: false`/, run.out, run.err)
  end
end
