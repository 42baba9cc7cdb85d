# frozen_string_literal: true

# Gyre::Broadcast over Debian's redis-server: processes without a common supervisor, and workers,
# which hear each other on two ways; Redis killed and started again.

require "test_helper"
require "minitest/mock"
require "support/certificates"
require "support/redis_server"
require "gyre/broadcast"
require "gyre/broadcast/redis"
require "cluster/clusters"
require "websocket/serving"

class BroadcastRedisTest < Minitest::Test
  include GyreTest::Clusters

  # Publishes the words that it reads, and prints those it hears.
  PROGRAM = <<~'RUBY'
    require "gyre"
    require "gyre/broadcast"
    $stdout.sync = true
    $stderr.reopen($stdout)
    Gyre::Broadcast.connect(ENV["REDIS"])
    printer = Object.new
    def printer.join(topic) = topic[self] = true
    def printer.thread_calls = self
    def printer.foreign? = false
    def printer.behind? = false
    PID = Process.pid
    def printer.deliver(message) = PID != Process.pid || puts(message.data) || true # a child has a copy
    Gyre::Broadcast.subscribe("news", printer)
    while (line = $stdin.gets)
      publish = -> { line.split.drop(1).each { |word| Gyre::Broadcast.publish("news", word) } }
      line.start_with?("fork") ? Process.wait(fork(&publish)) : publish.call
    end
  RUBY
  APP = <<~'RUBY'
    require "gyre/broadcast"
    Gyre::Broadcast.connect(ENV["REDIS"])
    run(lambda do |env|
      Gyre::WebSocket.open(env) do |socket|
        Gyre::Broadcast.subscribe("news", socket)
        socket.write(Process.pid.to_s)
        socket.each { |message| Gyre::Broadcast.publish("news", message) }
      end
    end)
  RUBY

  def setup
    @programs = []
    @server = GyreTest::RedisServer.new(need_program("redis-server"))
  end

  def teardown
    @programs.each(&:close)
    @server&.close
  end

  def test_processes_hear_each_other_once_and_in_order_and_forked_ones_before_their_end
    one, other = programs(2)
    one.puts "publish #{[*1..500].join(" ")}", "fork child"
    other.puts "publish #{[*501..1000].join(" ")}"
    [one, other].each do |program|
      heard = Array.new(1001) { program.gets.chomp }
      assert heard.delete("child")
      assert_equal [[*1..500], [*501..1000]], heard.map(&:to_i).partition { |number| number <= 500 }
    end
  end

  def test_a_process_says_at_its_end_which_messages_were_lost
    program = <<~RUBY
      require "gyre/broadcast"
      Gyre::Broadcast.connect("redis+unix:///nowhere/redis.sock")
      3.times { |number| Gyre::Broadcast.publish("news", number.to_s) }
    RUBY
    said = IO.popen([RbConfig.ruby, "-I#{File.join(GyreTest::Helpers::ROOT, "lib")}", "-e", program, { err: %i[child out] }], &:read)
    assert_includes said, "3 messages were lost at the process's end"
  end

  def test_redis_is_killed_and_comes_back
    one, other = programs(2)
    @server.kill
    reports = [one, other].map { |program| program.gets }
    reports.each do |line|
      assert_match(/\Agyre: broadcasts over redis\+unix:\S+: cannot subscribe: .*; those of others are lost, it is tried again$/, line)
    end
    one.puts "publish waits"
    lines = Array.new(2) { one.gets }
    assert_includes lines, "waits\n", "its own subscriber has it"
    assert_match(/cannot publish: .*; up to 8 MB wait, it is tried again$/, lines.join)
    @server.start
    subscribed(2)
    [one, other].each_with_index { |program, index| program.puts "publish #{index} #{index} #{index}" }
    heard = [one, other].map { |program| [].tap { |lines| lines << program.gets.chomp until lines.tally.values_at("0", "1") == [3, 3] } }
    heard.each { |lines| assert_includes lines.join("\n"), "it works again after" }
    assert_operator heard.last.count("waits"), :<=, 1
  end

  def test_workers_and_others_hear_each_message_once_and_in_order
    cluster("-w", "2", app: APP, env: { "REDIS" => @server.url }) do |_, program|
      peers = enter(program, 2)
      outside = programs(1, beside: 2).first
      peers.each_with_index { |peer, name| 200.times { |index| peer.text("#{name}.#{index}") } }
      outside.puts "publish #{Array.new(200) { |index| "2.#{index}" }.join(" ")}"
      [-> { outside.gets }, *peers.map { |peer| -> { peer.message } }].each do |heard|
        words = Array.new(600) { heard.call.split(".").map(&:to_i) }
        3.times { |name| assert_equal [*0..199], words.select { |word| word.first == name }.map(&:last) }
      end
      peers.each { |peer| assert peer.silent? }
      peers.each { |peer| peer.client.close }
    end
  end

  def test_a_redis_with_tls
    skip "this build has no TLS" unless Gyre::TLS.available?
    Dir.mktmpdir do |folder|
      certificates = GyreTest::Certificates.new(folder)
      @server.close
      @server = GyreTest::RedisServer.with_tls(need_program("redis-server"), [*certificates.issue("redis"), certificates.authority])
      carrier = Gyre::Broadcast::Redis.new("rediss://127.0.0.1:#{@server.tls_port}?ca=#{certificates.authority}", "gyre:broadcast").carrier
      arrived = Thread::Queue.new
      Gyre::Broadcast.stub(:arrived, ->(*message) { arrived << message }) do
        carrier.start
        subscribed(1)
        carrier.offer(JSON.generate(["tls#{object_id}", 1, "text", "news", "hello", {}]))
        assert_equal %w[text news hello], arrived.pop.first(3)
      end
    ensure
      carrier&.send(:finish)
    end
  end

  def test_a_wrong_address_is_refused_at_once
    %w[http://example.com rediss://h?ca=/nowhere.pem].each { |url| assert_raises(ArgumentError) { Gyre::Broadcast.connect(url) } }
  end

  private

  # Programs that have subscribed.
  def programs(count, beside: 0)
    all = Array.new(count) do
      IO.popen(ruby_command("-e", PROGRAM, env: { "REDIS" => @server.url }), "r+").tap { |program| @programs << program }
    end
    subscribed(count + beside)
    all
  end

  # A socket in each worker.
  def enter(program, count)
    peers = {}
    eventually(what: "a socket in each worker") do
      client = GyreTest::HTTPServing::Client.new(self, TCPSocket.new("127.0.0.1", program.port))
      client.get(**GyreTest::WebSocketServing::FIELDS)
      peer = GyreTest::WebSocketServing::Peer.new(client, nil)
      peers.key?(pid = peer.message) ? client.close : peers[pid] = peer
      peers.size == count
    end
    peers.values
  end

  def subscribed(count)
    eventually(what: "#{count} subscribers") { @server.call("PUBSUB", "NUMSUB", "gyre:broadcast").last == count }
  end
end
