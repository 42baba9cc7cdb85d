# frozen_string_literal: true

# `when_full: spill`: outputs that are away or not read, over real sockets, and a server that is
# killed, ended or restarted meanwhile.

require "test_helper"
require "json"
require "support/engines"
require "support/log_outputs"
require "support/redis_server"

# The program that an output leads to: reads lines from one connection after the other.
class LogSpillPeer
  def initialize(path)
    File.delete(path) if File.exist?(path)
    @path = path
    @server = UNIXServer.new(path)
    @bytes = +""
    @client = @closed = nil
    @thread = Thread.new do
      loop do
        @client = @server.accept
        @bytes << @client.readpartial(100_000) until @closed
      rescue EOFError, SystemCallError
        @client.close
      rescue IOError
        break # it is closed
      end
    end
  end

  def lines
    @bytes.scan(/.*\n/)
  end

  def numbers
    lines.filter_map { |line| line[/m(\d+)$/, 1]&.to_i }
  end

  # Returns when what has been sent to it is read: connections are taken in their order.
  def drain
    UNIXSocket.open(@path) { |socket| socket.write("drained\n") }
    sleep 0.005 until @bytes.end_with?("drained\n")
  end

  def close
    @closed = true
    @server.close
    @client&.close
    @thread.join
  end
end

GyreTest::Engines.test_case("LogSpillServerTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  include GyreTest::LogOutputs

  def self.time_limit_s = 120

  def setup
    @folder = Dir.mktmpdir
    @address = "#{@folder}/peer"
    @spill = "#{@folder}/spill"
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def test_acknowledged_clients_of_a_peer_that_is_away_go_on
    serve(logs: [log("unix://#{@address}")]) do |server|
      client = acknowledged(server, "far")
      store(client, 1..3)
      refute_empty Dir.glob("#{@spill}/*.records")
      output = output(server, @address)
      assert_operator output[:spilled], :>, 0
      assert_match(/cannot send to it/, output[:trouble])
      assert_equal [0, 0, 0.0], output.values_at(:bytes, :waiting, :unwritten_s)
      other = acknowledged(server, "near", id: "b")
      store(other, 1..1, service: "near")
      assert_equal ["near|info|m1"], server.lines
      peer = listen
      eventually { peer.numbers == [1, 2, 3] }
      store(client, 4..5)
      eventually { peer.numbers == [1, 2, 3, 4, 5] }
      eventually { output(server, @address).values_at(:spilled, :trouble) == [0, nil] }
      eventually { Dir.glob("#{@spill}/*.records").empty? }
      [client, other, peer].each(&:close)
    end
  end

  # Without a trouble that the system reports. A server that ends does not wait for it.
  def test_a_pipe_that_is_not_read_gets_all_in_order
    reader, writer = IO.pipe
    nil while writer.write_nonblock("-\n" * 2048, exception: false) != :wait_writable
    serve(logs: [log("/dev/fd/#{writer.fileno}")]) do |server|
      client = acknowledged(server, "far")
      store(client, 1..10)
      assert server.stop
      client.close
    end
    serve(logs: [log("/dev/fd/#{writer.fileno}")]) do |server|
      client = acknowledged(server, "far")
      store(client, 11..30)
      lines = Thread.new { reader.each_line.lazy.reject { |line| line == "-\n" }.first(40) }
      store(client, 31..40)
      assert_equal (1..40).to_a, lines.value.map { |line| line[/m(\d+)$/, 1].to_i }
      client.close
    end
  ensure
    [reader, writer].each(&:close)
  end

  def test_a_full_spill_blocks
    serve(logs: [log("unix://#{@address}").merge(queue: 20_000)], limits: { spill_bytes_limit: 5000 }) do |server|
      client = acknowledged(server, "far")
      store(client, 1..1)
      1.upto(60) { |number| client.write(record(number + 1, "x" * 1000)) }
      eventually { output(server, @address)[:waiting] == 1 }
      eventually { output(server, @address)[:trouble].to_s.start_with?("its spill is full, and cannot send to it") }
      assert_operator output(server, @address)[:spilled], :<=, 5000
      peer = listen
      nil until client.gets == "ack 61\n"
      eventually { peer.lines.size == 61 }
      [client, peer].each(&:close)
    end
  end

  # New clients are let in, too; and what Redis has of a client it has once.
  def test_redis_away
    redis = GyreTest::RedisServer.new(need_program("redis-server"))
    serve(logs: [log(redis.url)]) do |server|
      client = acknowledged(server, "far")
      store(client, 1..2)
      redis.kill
      store(client, 3..4)
      client.close
      client = eventually { let_in(server, "far") }
      client.write(record(4)) # its acknowledgement might have got lost
      store(client, 5..6)
      other = eventually { let_in(server, "far", id: "b") }
      other.write(record(1, "other"))
      assert_equal "ack 1\n", other.gets
      redis.start
      expected = %w[m3 m4 m5 m6 other] # this Redis has kept nothing
      eventually { redis.entries("gyre").map { |fields| fields["message"] } == expected }
      eventually { output(server, "gyre")[:spilled].zero? }
      assert_equal %w[6 1], redis.call("HMGET", "{gyre}:clients", "a" * 32, "b" * 32).map { |text| text.split.first }
      [client, other].each(&:close)
    end
  ensure
    redis&.close
  end

  # Killed while the peer is away, and then while it takes what was spilled: each batch at most once
  # more, and in order.
  def test_a_killed_server_loses_nothing
    random = Random.new(Integer(ENV.fetch("GYRE_SEED", "7")))
    peer = nil
    stored = 0
    kills = 0
    4.times do |round|
      program do |port, pid|
        client = TCPSocket.new("127.0.0.1", port)
        client.write(frame("far", "", severity: "authentication/2 client=#{"a" * 32}"))
        assert_equal "accepted 2\n", client.gets
        store(client, (stored + 1)..(stored + 20))
        stored += 20
        peer ||= listen if round == 2
        sleep(random.rand * 0.05) if peer
        Process.kill(:KILL, pid)
        kills += 1
        client.close
      end
    end
    peer.drain
    peer.close
    seen = peer.numbers
    peer = listen
    program do |port, pid|
      eventually { (seen + peer.numbers).uniq.size == stored }
      eventually { JSON.parse(status(port))["outputs"].first["spilled"].zero? }
      Process.kill(:TERM, pid)
    end
    peer.close
    all = seen + peer.numbers
    assert_equal (1..stored).to_a, all.uniq
    assert_operator all.size - stored, :<=, (kills + 1) * 20
  end

  def test_term_leaves_it_for_the_next_server_and_usr2_goes_on_with_it
    program do |port, pid, _, err, waiting|
      client = TCPSocket.new("127.0.0.1", port)
      client.write(frame("far", "", severity: "authentication/2 client=#{"a" * 32}"))
      assert_equal "accepted 2\n", client.gets
      store(client, 1..3)
      Process.kill(:USR2, pid)
      nil until err.gets.include?("bytes of the last run are written first")
      client.close
      client = TCPSocket.new("127.0.0.1", port)
      client.write(frame("far", "", severity: "authentication/2 client=#{"a" * 32}"))
      assert_equal "accepted 2\n", client.gets
      store(client, 4..6)
      Process.kill(:TERM, pid)
      assert_predicate waiting.call, :success?
      client.close
    end
    peer = listen
    program do |_, pid, _, _, waiting|
      eventually { peer.numbers == (1..6).to_a }
      Process.kill(:TERM, pid)
      assert_predicate waiting.call, :success?
    end
    peer.close
    assert_equal (1..6).to_a, peer.numbers, "none twice"
  end

  def test_what_cannot_be_is_refused
    { { logfile: "#{@folder}/a.log", when_full: "spill", spill: @spill } => /when_full: spill is for sockets, pipes and Redis/,
      { logfile: "unix://#{@address}", when_full: "spill" } => /needs spill: a folder/,
      { logfile: "unix://#{@address}", spill: @spill } => /spill: counts with when_full: spill only/,
      { logfile: "unix://#{@address}", when_full: "spills" } => /when_full: must be block, drop or spill, not "spills"/,
      { logfile: "unix://#{@address}", when_full: "spill", spill: "#{@folder}/a/b" } => /spill: .*No such file/ }.each do |settings, message|
      assert_match message, assert_raises(ArgumentError) { serve(logs: [{ services: ["far"], **settings }]) { flunk } }.message
    end
  end

  private

  def serve(**settings, &block)
    GyreTest::LogServer.open(**settings, &block)
  end

  def log(address)
    { services: ["far"], logfile: address, when_full: "spill", spill: @spill }
  end

  def listen
    LogSpillPeer.new(@address)
  end

  # Returns when all are acknowledged.
  def store(client, numbers, service: "far")
    numbers.each { |number| client.write(record(number, service: service)) }
    nil until client.gets&.[](/\Aack (\d+)\n\z/, 1).to_i == numbers.last
  end

  def program(&block)
    config = "#{@folder}/log.yml"
    logs = [{ service: "far", logfile: "unix://#{@address}", when_full: "spill", spill: @spill }]
    File.write(config, JSON.generate(port: 0, interval: 0.01, default_log: "#{@folder}/log", logs: logs))
    with_program(config, &block)
  end

  def status(port)
    client = TCPSocket.new("127.0.0.1", port)
    client.write(frame("", "", severity: "authentication/2 status"))
    client.read.lines.last
  ensure
    client&.close
  end
end
