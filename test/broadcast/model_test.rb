# frozen_string_literal: true

# Publishers everywhere (fibers and threads of workers, a program beside them, another machine's by
# Redis), subscribers of each speed that join and leave, and restarts, all drawn by a seed
# (GYRE_SEED): a subscriber has each message of a publisher once and in order from the first that it
# gets, until it leaves or its worker does; only slow ones are cut off. A sample; `rake
# test:realtime` goes on for a minute (GYRE_MODEL_S). bursts_test.rb has the memory.

require "json"
require "test_helper"
require "support/redis_server"
require "cluster/clusters"
require "websocket/serving"

class BroadcastModelTest < Minitest::Test
  include GyreTest::Clusters

  SECONDS = Float(ENV.fetch("GYRE_MODEL_S", "0.6"))
  SEED = Integer(ENV.fetch("GYRE_SEED", "38"))
  CHANNEL = "gyre:broadcast"

  # /publish has a worker publish some messages of a source of its own.
  APP = <<~'RUBY'
    require "gyre/broadcast"
    Gyre::Broadcast.connect(ENV["REDIS"])
    run(lambda do |env|
      if env["PATH_INFO"] == "/publish"
        source, count, size, thread = env["QUERY_STRING"].split(",") # in BINARY, and so are the messages
        work = -> { Integer(count).times { |number| Gyre::Broadcast.publish("model", "#{source} #{number} ".ljust(size.to_i, "x")) } }
        thread == "true" ? Thread.new(&work).join : work.call
        next [200, {}, ["done"]]
      end
      Gyre::WebSocket.open(env) do |socket|
        Gyre::Broadcast.subscribe("model", socket)
        socket.write("in")
        socket.read
      end
    end)
  RUBY
  JOBS = <<~'RUBY'
    require "gyre/broadcast"
    trap("TERM") { exit }
    (0..).each { |number| Gyre::Broadcast.publish("model", "job#{Process.pid} #{number}") && sleep(0.005) }
  RUBY

  # Joins a worker, reads, leaves, and so on. `faults`: what must not be.
  class Subscriber
    attr_reader :faults, :heard

    def initialize(port, random, pause_s)
      @port = port
      @random = random
      @pause_s = pause_s
      @faults = []
      @heard = 0
      @thread = Thread.new { stay while @final.nil? || !heard_all? }
    end

    # Leaves no more from now on, and reads at once.
    def settle = @settled = true

    # True if it is there and stays.
    def in? = @in

    # The last messages, which it waits for.
    def final=(sources)
      @final = sources
    end

    def join(limit_s) = @thread.join(limit_s)

    private

    def heard_all? = @final.all? { |source| @last[source] == 9 }

    def stay
      @last = {}
      socket = enter or return
      leave_at = now + @random.rand(0.05..0.8)
      until !@settled && now > leave_at
        @in = @settled
        return if read(socket) == :left || (@final && heard_all?)

        sleep(@pause_s) if @pause_s.positive? && !@settled
      end
    ensure
      @in = false
      socket&.close
    end

    def enter
      socket = TCPSocket.new("127.0.0.1", @port)
      fields = GyreTest::WebSocketServing::FIELDS.map { |name, value| "#{name.to_s.tr("_", "-")}: #{value}\r\n" }.join
      socket.write("GET / HTTP/1.1\r\nhost: a\r\n#{fields}\r\n")
      line = socket.gets until line == "\r\n"
      return socket if socket.read(4) == "\x81\x02in".b

      socket.close
      nil
    rescue SystemCallError
      nil # its worker has left
    end

    def read(socket)
      first, size = socket.read(2)&.unpack("CC")
      size = socket.read(2)&.unpack1("n") if size == 126
      payload = size && socket.read(size)
      return gone(nil) unless payload && payload.bytesize == size
      return gone(payload.unpack1("n")) if first == 0x88

      take(*payload.split(" ", 3)) if [0x81, 0x82].include?(first)
    rescue SystemCallError
      gone(nil)
    end

    def take(source, number, *)
      number = number.to_i
      last = @last[source]
      @faults << "#{source} #{number} after #{last}" if last && number != last + 1
      @last[source] = number
      @heard += 1
    end

    def gone(code)
      @faults << "cut off, although it reads" if code != 1001 && @pause_s.zero?
      :left
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def setup
    @server = GyreTest::RedisServer.new(need_program("redis-server"))
  end

  def teardown
    @server&.close
  end

  def test_each_subscriber_has_each_message_once_and_in_its_publishers_order_until_one_of_both_leaves
    flags = ["-w", "2", "--beside", "#{RbConfig.ruby} -I#{LIB} jobs.rb", "--log-format", "none"]
    cluster(*flags, app: APP, files: { "jobs.rb" => JOBS }, env: { "REDIS" => @server.url }) do |_, program|
      @random = Random.new(SEED)
      pauses = [0, 0, 0, 0.001, 0.02]
      subscribers = pauses.map { |pause_s| Subscriber.new(program.port, Random.new(@random.rand(1000)), pause_s) }
      publish_for(program, SECONDS)
      subscribers.each(&:settle)
      eventually(what: "all are in") { subscribers.all?(&:in?) }
      ask(program, "final,10,10,true")
      relay("last", 10)
      subscribers.each { |subscriber| subscriber.final = %w[final last] }
      subscribers.each { |subscriber| assert subscriber.join(60), "it waits for its last messages: #{subscriber.inspect[0, 2000]}" }
      assert_empty subscribers.flat_map(&:faults), "seed #{SEED}"
      assert_operator subscribers.sum(&:heard), :>, 100
    end
  end

  private

  # Publishes from everywhere for some seconds, with a restart after half of it and then each five
  # seconds.
  def publish_for(program, seconds)
    threads = Array.new(3) { |thread| Random.new(@random.rand(1000)).then { |random| Thread.new { publish(program, thread, random) } } }
    stop = now + seconds
    restarts = 0
    restart_at = stop - (seconds / 2)
    while now < stop
      sleep(0.01)
      next if now < restart_at

      program.signal(:USR1)
      program.expect(/(?:Rolling restart: all workers run the new code.*?){#{restarts += 1}}/m)
      restart_at += 5
    end
  ensure
    @over = true
    threads&.each(&:value)
  end

  def publish(program, thread, random)
    (0..).each do |nth|
      source = "s#{thread}.#{nth}"
      count = random.rand(1..60)
      thread.zero? ? relay(source, count) : ask(program, "#{source},#{count},#{random.rand(20..3000)},#{random.rand(2).zero?}")
      @over ? break : sleep(0.02)
    end
  end

  # As another machine's server does.
  def relay(source, count)
    count.times { |number| @server.call("PUBLISH", CHANNEL, JSON.generate([source, number + 1, "text", "model", "#{source} #{number} x", {}])) }
  end

  def ask(program, query)
    socket = TCPSocket.new("127.0.0.1", program.port)
    socket.write("GET /publish?#{query} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
    assert_includes socket.read, "done"
  ensure
    socket&.close
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
