# frozen_string_literal: true

# Messages of Gyre::Broadcast between the workers of one server: each once and in order, past a
# worker that hangs, and across restarts.

require "test_helper"
require "minitest/mock"
require "websocket/serving"
require "gyre/broadcast"
require "gyre/broadcast/outbox"
require_relative "clusters"

class ClusterBroadcastTest < Minitest::Test
  include GyreTest::Clusters

  APP = <<~'RUBY'
    require "gyre/broadcast"

    # A subscriber without a client.
    Heard = Struct.new(:words) do
      def join(topic) = topic[self] = true
      def leave(topic) = topic.delete(self)
      def thread_calls = self
      def post(job) = job.call
      def deliver(message) = words << message.data
    end

    publish = ->(message) { Gyre::Broadcast.publish([:room, 5], message) }
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/pid" then next [200, {}, [Process.pid.to_s]]
      when "/late"
        heard = Heard.new([])
        Gyre::Broadcast.subscribe("/late", heard)
        puts "waiting"
        sleep 0.005 until heard.words.include?("end")
        Gyre::Broadcast.unsubscribe("/late", heard)
        publish.call("heard #{heard.words.size}")
        next [200, {}, [heard.words.join(",")]]
      when "/publish" then next [200, {}, [Gyre::Broadcast.publish("/late", env["QUERY_STRING"]).to_s]]
      end
      Gyre::WebSocket.open(env, message_bytes_limit: 8 << 20, backlog_bytes_limit: 1 << 28) do |socket|
        Gyre::Broadcast.subscribe(["room", 5], socket, as: env["PATH_INFO"])
        socket.write("#{Process.pid}")
        socket.each do |message|
          case message
          when "disconnect" then Gyre::Broadcast.disconnect("/user")
          when "thread" then Thread.new { 50.times { |index| publish.call("thread #{index}") } }.join
          when "fork" then Process.wait(fork { exit!(publish.call("child") ? 0 : 1) })
          when /^long (\d+)/ then publish.call("#{$1} ".ljust(100_000, "x"))
          else publish.call(message)
          end
        end
      end
    end)
  RUBY

  # Publishes from a process and its child, which end at once; started again, waits for its end.
  JOBS = <<~'RUBY'
    require "gyre/broadcast"
    publish = ->(message) { Gyre::Broadcast.publish([:room, 5], message) }
    trap("TERM") { exit }
    if File.exist?("done")
      at_exit { publish.call("bye") }
      publish.call("hello")
      puts("jobs wait") || $stdout.flush
      sleep
    end
    sleep 0.005 until File.exist?("go")
    File.write("done", "")
    fork { 200.times { |index| publish.call("child #{index}") } }
    200.times { |index| publish.call("parent #{index}") }
  RUBY
  BESIDE = ["--beside", "#{RbConfig.ruby} -I#{File.join(GyreTest::Helpers::ROOT, "lib")} jobs.rb"].freeze

  def test_each_subscriber_gets_each_message_once_and_those_of_one_publisher_in_order
    broadcasting(3) do |peers|
      writers = peers.map.with_index { |peer, name| Thread.new { 100.times { |index| peer.text("#{name} #{index}") } } }
      writers.each(&:join)
      peers.each do |peer|
        messages = Array.new(100 * peers.size) { peer.message.split.map(&:to_i) }
        messages.group_by(&:first).each_value { |of_one| assert_equal (0..99).to_a, of_one.map(&:last) }
        assert_equal peers.size, messages.map(&:first).uniq.size
      end
      peers.each { |peer| assert peer.silent? }
    end
  end

  def test_binary_long_and_hostile_messages_come_as_they_are
    broadcasting(2) do |peers|
      ["\xff\0\n".b, "\u2028\n\"\\", "", "\u0001" * 2_000_000, "x" * 5_000_000, "last"].each do |message|
        message.encoding == Encoding::BINARY ? peers.first.binary(message) : peers.first.text(message)
        frames = peers.map(&:frame)
        assert_equal [[message.encoding == Encoding::BINARY ? 2 : 1, message]] * 2, frames.map { |frame| [frame.opcode, frame.payload] }
      end
    end
  end

  def test_threads_may_publish_and_forked_children_do_no_harm
    broadcasting(2) do |peers|
      peers.first.text("fork").text("thread")
      peers.each { |peer| assert_equal (0..49).map { |index| "thread #{index}" }, Array.new(50) { peer.message } }
    end
  end

  def test_what_a_program_beside_the_workers_publishes_reaches_all_workers_also_at_its_end
    broadcasting(2, *BESIDE, files: { "jobs.rb" => JOBS }) do |peers, program|
      go(program)
      peers.each do |peer|
        heard = Array.new(401) { peer.message.split }.group_by(&:first)
        assert_equal [[["hello"]], *[(0..199).map(&:to_s)] * 2], [heard["hello"], *%w[parent child].map { |name| heard[name].map(&:last) }]
      end
    end
  end

  def test_what_a_worker_publishes_at_its_end_reaches_the_others
    config = "after_worker_stop { |index| 50.times { |number| Gyre::Broadcast.publish([:room, 5], \"\#{index} \#{number}\") } }"
    broadcasting(2, "-C", "gyre.rb", files: { "gyre.rb" => config }) do |peers|
      Process.kill(:TERM, @pids.fetch(peers.first))
      assert_equal [*0..49], Array.new(50) { peers.last.message.split.last.to_i }
    end
  end

  def test_the_sockets_of_one_user_are_closed_in_all_workers
    broadcasting(2) do |peers, program|
      users = enter(program, 2, "/user")
      peers.first.text("disconnect").text("others stay")
      users.each { |peer| assert_equal [1008, "disconnected"], peer.closed }
      peers.each { |peer| assert_equal "others stay", peer.message }
      users.each { |peer| peer.client.close }
    end
  end

  def test_a_worker_that_hangs_holds_up_no_others_and_loses_only_what_is_too_much
    broadcasting(3, "--worker-timeout", "300") do |peers, program|
      hung, *others = peers
      GyreTest::Processes.stop(pid = @pids.fetch(hung))
      150.times do |index|
        others.first.text("long #{index}")
        others.each { |peer| assert_equal index, peer.message.to_i }
      end
      program.expect(/ worker \d \(process \d+\) does not take its messages: the next ones for it are dropped$/, :err)
      Process.kill(:CONT, pid)
      dropped = program.expect(/takes its messages again; (\d+) were dropped$/, :err)[1].to_i
      assert_operator dropped, :>, 50
      assert_equal (0...150 - dropped).to_a, Array.new(150 - dropped) { hung.message.to_i }
      others.last.text("afterwards")
      peers.each { |peer| assert_equal "afterwards", peer.message }
      assert_equal 1, program.text(:err).scan("does not take").size
    ensure
      Process.kill(:CONT, pid) if pid
    end
  end

  def test_workers_of_before_a_rolling_restart_still_hear_and_are_heard = check_workers_of_before_a_restart("Rolling", :USR1)

  def test_workers_of_before_a_hot_restart_still_hear_and_are_heard = check_workers_of_before_a_restart("Hot", :USR2)

  def check_workers_of_before_a_restart(kind, signal)
    cluster("-w", "1", *BESIDE, app: APP, files: { "jobs.rb" => JOBS, "done" => "" }) do |cluster, program|
      program.expect(/^jobs wait$/)
      late = program.request("/late")
      program.expect(/^waiting$/)
      before = cluster.pids("worker")
      program.signal(signal)
      peers = enter(program, 1, except: before)
      publisher = worker_without(program, before)
      [*0..98, "end"].each { |text| publisher.get("GET /publish?#{text} HTTP/1.1") }
      assert_match(/\r\n\r\n#{(0..98).to_a.join(",")},end\z/, late.read)
      assert_equal "heard 100", peers.first.message
      assert_equal "bye", peers.first.message
      [late, publisher, *peers.map(&:client)].each(&:close)
      program.expect(/^#{kind} restart: all workers run the new code$/)
    end
  end

  private

  # Yields a socket for each of some workers.
  def broadcasting(count, *flags, **options)
    cluster("-w", count.to_s, *flags, app: APP, **options) do |cluster, program|
      peers = enter(program, count)
      yield peers, program
      eventually { cluster.pids("worker").size == count } # none has died, or it was replaced
      peers.each { |peer| peer.client.close }
    end
  end

  # Returns a connection to a new worker. Those of before may still accept some.
  def worker_without(program, before)
    eventually(what: "a new worker") do
      client = GyreTest::HTTPServing::Client.new(self, TCPSocket.new("127.0.0.1", program.port))
      next client unless before.include?(client.get("GET /pid HTTP/1.1").body.to_i)

      client.close
      nil
    end
  end

  def enter(program, count, path = "/", except: [])
    peers = {}
    @pids = {}.compare_by_identity
    eventually(what: "a socket in each worker") do
      client = GyreTest::HTTPServing::Client.new(self, TCPSocket.new("127.0.0.1", program.port))
      client.get("GET #{path} HTTP/1.1", **GyreTest::WebSocketServing::FIELDS)
      peer = GyreTest::WebSocketServing::Peer.new(client, nil)
      pid = @pids[peer] = peer.message.to_i
      peers.key?(pid) || except.include?(pid) ? client.close : peers[pid] = peer
      peers.size == count
    end
    peers.values
  end
end

class BroadcastOutboxTest < Minitest::Test
  def test_messages_beyond_the_limit_are_dropped_counted_and_reported_once
    said = []
    outbox = Gyre::Broadcast::Outbox.new(10) { |text| said << text }
    %w[aaaaa bbbbb ccc ddd].each { |text| outbox.offer(text) }
    outbox.push("eee")
    assert_equal "aaaaabbbbbeee", outbox.to_s
    assert_equal %w[aaaaa bbbbb eee], outbox.take
    outbox.offer("f")
    assert_equal %w[f], outbox.take
    assert_equal ["does not take its messages: the next ones for it are dropped", "takes its messages again; 2 were dropped"], said
  end
end

class BroadcastRelayTest < Minitest::Test
  def test_a_message_that_came_on_two_ways_counts_once
    arrived = []
    message = ->(origin, number) { [origin, number, "text", "topic", "#{origin}#{number}", {}] }
    Gyre::Broadcast.stub(:arrived, ->(_, _, data, *) { arrived << data }) do
      [["a", 1], ["a", 1], ["a", 2], ["b", 1], ["a", 1], ["a", 4], ["a", 3]].each { |each| Gyre::Broadcast::Relay.receive(message.call(*each)) }
    end
    assert_equal %w[a1 a2 b1 a4], arrived
  end
end
