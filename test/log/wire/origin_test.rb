# frozen_string_literal: true

# Where messages come from: what clients send of it, what the server sees, and how lines carry it.

require "test_helper"
require "json"
require "gyre/log/wire/origin"
require "support/log_server"
require_relative "../with_clients"
require "support/engines"

GyreTest::Engines.test_case("LogOriginTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  include GyreTest::WithLogClients

  def origin
    Gyre::Log::Origin
  end

  def test_what_a_client_sends_is_bounded_and_without_spaces
    assert_match(/\Ahost=[\w.:-]{1,255}\z/, origin.words(nil))
    assert_match(/\Ahost=[\w.:-]{1,255} pid=4711\z/, origin.words(4711))
    Socket.stub(:gethostname, "a b\n|é#{"x" * 300}") do
      assert_equal "host=a_b____#{"x" * 248}", origin.words(nil)
      assert_equal origin.claimed(origin.words(1), nil), origin.new("a_b____#{"x" * 248}", 1)
    end
  end

  def test_in_place_of_what_is_not_understood_there_is_what_the_server_sees
    seen = origin.new("192.0.2.1")
    assert_equal origin.new("web1", 4711), origin.claimed(" host=web1 pid=4711", seen)
    assert_equal origin.new("web1"), origin.claimed(" pid=0 host=web1", seen)
    ["", " pid=4711", " host=", " host=a|b", " host=#{"x" * 256}", " nohost=web1"].each do |words|
      assert_equal seen, origin.claimed(words, seen), words
    end
    assert_equal origin.new("2001:db8::1"), origin.seen(Addrinfo.tcp("2001:db8::1", 1))
    assert_equal origin.new(Socket.gethostname, 7), origin.seen(Addrinfo.unix("/tmp/x"), 7)
  end

  def test_json_has_it_as_fields_and_text_only_where_it_is_asked_for
    Dir.mktmpdir do |folder|
      logs = { "json" => { format: :json }, "asked" => { origin: true }, "raw" => { origin: true, raw: true },
               "without" => { format: :json, origin: false } }
      logs = logs.map { |service, more| { services: [service], logfile: File.join(folder, service), **more } }
      GyreTest::LogServer.open(logs: logs) do |server|
        %w[json asked raw default without].each { |service| client(server, service) { |client| client.info("a\nb") && assert(client.flush(30)) } }
        own = "host=#{Socket.gethostname} pid=#{Process.pid}"
        assert_equal ["asked|info|#{own} a\\nb"], server.lines(File.join(folder, "asked"))
        assert_equal ["raw|info|#{own} a", "b"], server.lines(File.join(folder, "raw"))
        assert_equal ["default|info|a\\nb"], server.lines
        assert_equal %w[time service severity message logged_at], JSON.parse(File.read(File.join(folder, "without"))).keys
        line = JSON.parse(File.read(File.join(folder, "json")))
        assert_equal ["a\nb", Socket.gethostname, Process.pid], line.values_at("message", "host", "pid")
      end
    end
  end

  def test_others_come_from_their_address_and_a_process_of_this_machine_is_known
    path = File.join(@spool, "socket")
    inputs = %w[json syslog].map { |type| { type: type, bind: "tcp://127.0.0.1:0" } }
    GyreTest::LogServer.open(bind: ["tcp://127.0.0.1:0", "unix://#{path}"], origin: true, inputs: inputs) do |server|
      _, unix, json, syslog = server.server.endpoints
      server.client("web").tap { |client| client.write(Gyre::Log::Wire.frame("web", "info", "tcp")) }.close
      local = server.connect(unix)
      local.write(Gyre::Log::Wire.frame("web", "authentication", "") + Gyre::Log::Wire.frame("web", "info", "unix"))
      server.connect(json).tap { |client| client.write(%({"service":"web","message":"json"}\n)) }.close
      server.connect(syslog).tap { |client| client.write("<14>1 - far web 9 - - syslog\n") }.close
      here = "host=#{Socket.gethostname} pid=#{Process.pid}"
      expected = ["host=127.0.0.1 json", "host=127.0.0.1 tcp", "#{here} unix", "host=far pid=9 syslog"]
      eventually { server.lines.map { |line| line.delete_prefix("web|info|") }.sort == expected.sort }
      local.close
    end
  end

  # The process that logged has ended: the one that sends is another.
  def test_what_another_process_left_does_not_get_this_ones_number
    identity = Gyre::Log::Identity.fresh
    address = Gyre::Log::Address.new("web", host: "127.0.0.1", port: 1)
    assert_includes address.authentication(identity), " pid=#{Process.pid}"
    refute_includes address.authentication(identity, adopted: true), "pid="
    refute_includes address.authentication(nil), "host="
  end

  def test_a_key_that_leaves_no_room_is_still_sent
    words = "authentication/2 client=#{"a" * 32} secret=#{"b" * 32}"
    longest = Gyre::Log::Wire::FRAME_BYTES_LIMIT - 1 - Gyre::Log::Wire.frame("web", words, "").bytesize
    address = Gyre::Log::Address.new("web", host: "127.0.0.1", port: 1, key: "k" * longest)
    frame = address.authentication(Gyre::Log::Identity.fresh)
    assert_equal Gyre::Log::Wire::FRAME_BYTES_LIMIT - 1, frame.bytesize
    refute_includes frame, "host="
  end

  def test_equal_messages_of_two_hosts_are_not_one_that_repeats
    ingest = Gyre::Log::Ingest.new
    sink = ingest.sink(cull: true, origin: true)
    ingest.route(nil, nil, [sink])
    %w[one two two].each { |host| ingest.decoder(:analogger, host: host).feed(Gyre::Log::Wire.frame("web", "info", "same"), 0) }
    lines = sink.take.first.lines.map { |line| line.chomp.split("|", 4).last }
    assert_equal ["host=one same", "host=two same", "host=two Last message repeated 1 times"], lines
  end
end
