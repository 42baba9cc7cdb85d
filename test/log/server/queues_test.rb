# frozen_string_literal: true

# An output that stands still: its own clients wait, or its messages are dropped and counted;
# everything else goes on. The server is asked over sockets; an output stands still because nothing
# listens where it leads to, or because a pipe is full.

require "test_helper"
require "json"
require "support/engines"
require "support/log_outputs"
require "support/redis_server"

GyreTest::Engines.test_case("LogQueuesTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  include GyreTest::LogOutputs

  def nowhere = @nowhere ||= "127.0.0.1:#{free_port}"

  def test_one_dead_output_stops_nothing_else
    Dir.mktmpdir do |folder|
      devlog = File.join(folder, "devlog")
      inputs = [{ type: "syslog", bind: ["udp://127.0.0.1:0", "unixgram://#{devlog}"] }]
      serve(logs: [{ services: ["dead"], logfile: "tcp://#{nowhere}" }], inputs: inputs, limits: { stop_timeout_s: 0.1 }) do |server|
        dead = acknowledged(server, "dead")
        dead.write(record(1, service: "dead"))
        eventually { output(server, nowhere)[:trouble] && output(server, nowhere)[:bytes].positive? }
        shop = acknowledged(server, "shop", id: "b")
        shop.write(record(1, service: "shop"))
        assert_equal "ack 1\n", shop.gets
        [Addrinfo.udp("127.0.0.1", server.server.endpoints[1].port), Addrinfo.unix(devlog, Socket::SOCK_DGRAM)].each do |address|
          address.connect { |socket| 3.times { |number| socket.send("<14>gram: #{number}", 0) } }
        end
        eventually { server.lines.grep(/gram\|/).size == 6 }
        assert_equal false, server.server.status[:paused]
        [dead, shop].each(&:close)
      end
    end
  end

  def test_a_service_in_two_logs_is_acknowledged_when_both_have_it
    Dir.mktmpdir do |folder|
      all = File.join(folder, "all.log")
      logs = [{ services: %w[shop cart], logfile: all }, { services: ["shop"], levels: ["error"], logfile: "tcp://#{nowhere}" }]
      serve(logs: logs, limits: { stop_timeout_s: 0.1 }) do |server|
        client = acknowledged(server, "shop")
        records = %w[info error info].each_with_index.map do |severity, index|
          Gyre::Log::Records.encode(seq: index + 1, time_us: 1, service: "shop", severity: severity, message: "m#{index}")
        end
        client.write(records.join)
        eventually { File.read(all).scan(/m\d/) == %w[m0 m1 m2] }
        assert_equal :wait_readable, client.read_nonblock(1, exception: false)
        TCPServer.open(*nowhere.split(":")) do |listener|
          far = listener.accept
          assert_match(/shop\|error\|m1$/, far.gets)
          assert_equal "ack 3\n", client.gets
          far.close
        end
        client.close
      end
    end
  end

  # A connection with several services waits as a whole; one with others does not.
  def test_a_full_queue_stops_connections_that_bring_more_for_it
    reader, writer = full_pipe
    serve(logs: [stuck(writer, queue: 50_000)]) do |server|
      mixed = server.client("mixed")
      mixed.write(frame("stuck", "x" * 1000) * 60)
      eventually { output(server, "/dev/fd")[:waiting] == 1 }
      mixed.write(frame("mixed", "behind it"))
      other = server.client("other")
      other.write(frame("other", "goes on"))
      eventually { server.lines == ["other|info|goes on"] }
      late = server.client("stuck")
      late.write(frame("stuck", "waits from the beginning"))
      eventually { output(server, "/dev/fd")[:waiting] == 2 }
      lines = Thread.new { reader.each_line.lazy.grep(/stuck/).first(61) }
      assert_match(/waits from the beginning/, lines.value.last)
      eventually { server.lines == ["other|info|goes on", "mixed|info|behind it"] }
      assert_equal [0, 0], output(server, "/dev/fd").values_at(:waiting, :dropped)
      [mixed, other, late].each(&:close)
    end
  ensure
    [reader, writer].each(&:close)
  end

  # One read of each would be more than a full queue takes beyond its bound, and would be dropped.
  def test_a_connection_is_not_read_while_the_queue_of_its_service_is_full
    reader, writer = full_pipe
    serve(logs: [stuck(writer, queue: 50_000)]) do |server|
      lines = ("x" * 1000).then { |message| frame("stuck", message) } * 250
      clients = Array.new(100) { server.client("stuck") }
      clients.each { |client| Thread.new { client.write(lines) }.report_on_exception = false }
      eventually { output(server, "/dev/fd")[:waiting] == clients.size }
      assert_operator output(server, "/dev/fd")[:bytes], :<, 1_000_000
      reading = Thread.new { loop { reader.readpartial(1_000_000) } }
      eventually { server.server.status[:messages] == clients.size * 250 && output(server, "/dev/fd")[:waiting].zero? }
      assert_equal 0, output(server, "/dev/fd")[:dropped]
      clients.each(&:close)
      server.stop
      reading.kill.join
    end
  ensure
    [reader, writer].each(&:close)
  end

  # As it happens when another thread asks for the status.
  def test_a_connection_may_begin_to_wait_while_those_that_wait_are_counted
    sink_class = Struct.new(:meanwhile) do
      def hit? = true
      def room? = false
      def ==(_other) = meanwhile.call || true
    end
    parts = Struct.new(:sinks) do
      %i[routing committer ingest limits].each { |name| define_method(name) { self } }
      %i[memory_bytes_limit bytesize bytes].each { |name| define_method(name) { 0 } }
      def crowded? = true
      %i[on_written commit_now].each { |name| define_method(name) { nil } }
    end
    peer_class = Class.new { def pause = nil }
    sink = sink_class.new
    flow = Gyre::Log::Flow.new(nil, parts.new([sink]))
    flow.received(nil, 0, peer_class.new)
    sink.meanwhile = -> { flow.received(nil, 0, peer_class.new) }
    assert_equal 1, flow.queued(:another)
    sink.meanwhile = -> {}
    assert_equal 2, flow.queued(:another)
  end

  def test_where_it_drops_no_client_waits_and_it_is_counted_and_reported
    reader, writer = full_pipe
    serve(logs: [stuck(writer, queue: 20_000, when_full: "drop")]) do |server|
      client = acknowledged(server, "stuck")
      1.upto(100) { |number| client.write(record(number, "x" * 1000, service: "stuck")) }
      client.write(record(101, service: "shop"))
      client.gets until server.lines == ["shop|info|m101"]
      assert_operator output(server, "/dev/fd")[:dropped], :>=, 80
      assert_equal 0, output(server, "/dev/fd")[:waiting]
      eventually { server.report.match?(/\d+ messages were dropped, for its queue is full/) }
      reading = Thread.new { loop { reader.readpartial(100_000) } }
      client.close
      server.stop
      reading.kill.join
    end
  ensure
    [reader, writer].each(&:close)
  end

  # Their senders cannot be held back.
  def test_datagrams_for_a_full_queue_are_dropped_and_counted
    reader, writer = full_pipe
    serve(logs: [stuck(writer, queue: 5_000)], inputs: [{ type: "syslog", bind: ["udp://127.0.0.1:0"] }]) do |server|
      socket = UDPSocket.new
      socket.connect("127.0.0.1", server.server.endpoints[1].port)
      20.times do |number|
        socket.send("<14>stuck: #{"x" * 1000}", 0)
        socket.send("<14>free: #{number}", 0)
      end
      eventually { server.lines.size == 20 }
      assert_operator output(server, "/dev/fd")[:dropped], :>=, 14
      reading = Thread.new { loop { reader.readpartial(100_000) } }
      socket.close
      server.stop
      reading.kill.join
    end
  ensure
    [reader, writer].each(&:close)
  end

  def test_redis_away_stops_only_its_own_clients
    redis = GyreTest::RedisServer.new(need_program("redis-server"))
    redis.kill
    serve(logs: [{ services: ["clicks"], logfile: redis.url }]) do |server|
      shop = acknowledged(server, "shop")
      shop.write(record(1, service: "shop"))
      assert_equal "ack 1\n", shop.gets
      # Not known to need Redis by its first frame.
      shop.write(record(2, service: "clicks"))
      assert_match(/\Aerror: .*send it again\n\z/, shop.gets)
      clicks = server.connect
      clicks.write(frame("clicks", "", severity: "authentication/2 client=#{"b" * 32}"))
      assert_nil clicks.gets, "closed; the client tries again"
      redis.start
      again = eventually { let_in(server, "shop") }
      again.write(record(2, service: "clicks") + record(3, service: "shop"))
      nil until again.gets == "ack 3\n"
      assert_equal ["m2"], redis.entries("gyre").map { |fields| fields["message"] }
      assert_equal ["shop|info|m1", "shop|info|m3"], server.lines.grep(/shop/)
      [shop, clicks, again].each(&:close)
    end
  ensure
    redis&.close
  end

  def test_usr2_is_refused_at_once_while_an_output_stands_still
    serve(logs: [{ services: ["dead"], logfile: "tcp://#{nowhere}" }], successor: Object.new, limits: { stop_timeout_s: 0.1 }) do |server|
      client = server.client("dead")
      client.write(frame("dead", "hello"))
      eventually { output(server, nowhere)[:trouble] && output(server, nowhere)[:bytes].positive? }
      server.server.restart
      eventually { server.report.match?(/not restarted: not everything could be written: tcp:.*refused/) }
      client.close
    end
  end

  # A limit on the size of files stands for the disk: the journal that the first server left cannot
  # be rewritten.
  def test_a_server_whose_disk_is_full_at_the_start_listens_and_goes_on_when_there_is_room
    prlimit = need_program("prlimit")
    Dir.mktmpdir do |folder|
      config = File.join(folder, "log.yml")
      File.write(config, JSON.generate(port: 0, interval: 0.01, default_log: "STDOUT", logs: [{ service: "small", logfile: "#{folder}/small" }]))
      with_program(config) { |port| store(port, "small", 1) }
      with_program(config, rlimit_fsize: [10, Process.getrlimit(:FSIZE).last]) do |port, pid, out, err|
        store(port, "other", 1)
        assert_match(/\|other\|info\|m1/, out.gets)
        assert_match(/disk full, cannot open it: File too large/, JSON.parse(status(port))["outputs"][0]["trouble"])
        small = TCPSocket.new("127.0.0.1", port)
        small.write(frame("small", "", severity: "authentication/2 client=#{"b" * 32}"))
        assert_nil small.gets
        small.close
        assert system(prlimit, "--pid", pid.to_s, "--fsize=unlimited")
        nil until err.gets.include?("there is room again")
        store(port, "small", 2, id: "c")
      end
      assert_equal %w[m1 m2], File.read("#{folder}/small").scan(/m\d$/)
      with_program(config, rlimit_fsize: [10, Process.getrlimit(:FSIZE).last]) do |port, pid, _, _, waiting|
        status(port)
        Process.kill(:TERM, pid)
        assert_predicate waiting.call, :success?, "TERM"
      end
    end
  end

  private

  def serve(**settings, &block)
    GyreTest::LogServer.open(**settings, &block)
  end

  def full_pipe
    IO.pipe.tap { |_, writer| nil while writer.write_nonblock("-" * 4096, exception: false) != :wait_writable }
  end

  def stuck(writer, **settings)
    { services: ["stuck"], logfile: "/dev/fd/#{writer.fileno}", **settings }
  end

  def store(port, service, number, id: "a")
    client = TCPSocket.new("127.0.0.1", port)
    client.write(frame(service, "", severity: "authentication/2 client=#{id * 32}") + record(number, service: service))
    assert_equal ["accepted 2\n", "ack #{number}\n"], [client.gets, client.gets]
  ensure
    client&.close
  end

  def status(port)
    client = TCPSocket.new("127.0.0.1", port)
    client.write(frame("", "", severity: "authentication/2 status"))
    client.read.lines.last
  ensure
    client&.close
  end
end
