# frozen_string_literal: true

# Events that a stream has missed while its client was away: each once and in the order of its
# publisher, whichever process the client comes back to.

require "test_helper"
require "minitest/mock"
require "gyre/broadcast"
require "http/serving"
require "support/redis_server"
require "support/processes"
require "cluster/clusters"

class BroadcastHistoryTest < Minitest::Test
  Message = Gyre::Broadcast::Message

  # An event stream without a client.
  class Stream
    attr_reader :texts

    def initialize(history, id)
      @history = history
      @reading = Gyre::Broadcast::History::Reading.new(history, id)
      @texts = []
    end

    def follow(topic) = @history.synchronize { @reading.follow(topic) }

    def deliver(message) = take(@reading.text(message))

    # Returns the last id then.
    def listen
      nil while take(@listening ? nil : @reading.more)
      @listening = true
      @history.position(nil).to_s
    end

    def take(text) = text && @texts.concat(text.split(/(?<=\n\n)/))
  end

  # A process that hears several publishers, in its own order.
  class Heard
    attr_reader :history, :streams

    def initialize(count, bytes)
      @history = Gyre::Broadcast::History.new
      %w[one two].each { |topic| @history.keep(topic, count, bytes) }
      @heard = Hash.new(0)
      @streams = []
    end

    # Takes a publisher's next message, if it has one.
    def hear(publisher, sent)
      topic, text = sent[@heard[publisher]]
      return unless topic

      number = @heard[publisher] += 1
      @history.ordered(topic) do
        message = Message.new(text, {})
        @history.add(topic, message, publisher, number)
        @streams.each { |events, topics| events.deliver(message) if topics.include?(topic) }
      end
    end

    # A client connects. Returns its stream, and whether something is missing.
    def open(id, topics)
      events = Stream.new(@history, id)
      gaps = topics.map { |topic| events.follow(topic) }
      @streams << [events, topics]
      [events, gaps.include?(:gap)]
    end

    # Returns the texts for a client that is cut off then.
    def cut(events)
      @streams.reject! { |each, _| each.equal?(events) }
      events.listen
      events.texts
    end
  end

  # What a client of these topics keeps between its connections.
  class Client
    attr_accessor :process, :events
    attr_reader :topics, :id, :data

    def initialize(topics)
      @topics = topics
      @data = []
    end

    def take(texts)
      texts.each do |text|
        @id = text[/^id: (.*)$/, 1] || @id
        text.scan(/^data: (.*)$/) { |data, _| @data << data }
      end
    end
  end

  def test_each_event_comes_once_and_in_its_publishers_order_over_processes_and_cuts_at_any_event
    100.times do |seed|
      random = Random.new(seed)
      processes = Array.new(3) { Heard.new(1000, 1 << 20) }
      sent = %w[a b c].to_h { |publisher| [publisher, []] }
      clients = [%w[one], %w[two], %w[one two]].map { |topics| Client.new(topics) }
      connect = lambda do |client|
        client.process = processes.sample(random: random)
        client.events, gap = client.process.open(client.id, client.topics)
        refute gap, "seed #{seed}"
      end
      clients.each do |client|
        connect.call(client)
        client.events.listen
      end
      400.times do
        case random.rand(10)
        when 0..2 then publish(sent, random)
        when 3..7
          publisher = sent.keys.sample(random: random)
          processes.sample(random: random).hear(publisher, sent[publisher])
        when 8 then clients.each { |client| client.events.listen if random.rand(2).zero? }
        else
          client = clients.sample(random: random)
          texts = client.process.cut(client.events)
          client.take(texts.first(random.rand((client.id ? 0 : 1)..texts.size)))
          connect.call(client)
        end
      end
      processes.product(sent.to_a).each { |process, (publisher, messages)| nil while process.hear(publisher, messages) }
      clients.each do |client|
        client.take(client.process.cut(client.events))
        sent.each do |publisher, messages|
          expected = messages.filter_map { |topic, text| text if client.topics.include?(topic) }
          assert_equal expected, client.data.grep(/\A#{publisher}/), "seed #{seed}, #{client.topics}"
        end
      end
    end
  end

  def test_the_last_messages_are_kept_in_number_and_bytes_and_a_gap_is_told
    process = Heard.new(3, 20)
    events, = process.open(nil, %w[one])
    id = events.listen
    sent = Array.new(4) { |index| ["one", "number #{index}"] } << ["one", "x" * 21]
    3.times { process.hear("a", sent) }
    assert_equal [["number 1", "number 2"], true], after(process, id), "three have 24 bytes"
    first = data_and_ids(process.cut(events)).first
    assert_equal [["number 1", "number 2"], false], after(process, first.last)
    process.hear("a", sent)
    assert_equal [["number 2", "number 3"], true], after(process, first.last)
    process.hear("a", sent)
    assert_equal [[], true], after(process, first.last)
    assert_equal [[], false], after(process, nil)
    assert_equal [[], false], after(process, "x7"), "the app's own"
  end

  def test_a_process_that_began_after_the_id_or_was_cut_off_tells_of_a_gap
    process = Heard.new(3, 1000)
    old = "1000,a:1"
    process.hear("a", [%w[one x], %w[one y]])
    process.hear("a", [%w[one x], %w[one y]])
    assert_equal [%w[y], true], after(process, old)
    time = process.history.position(nil).time
    id = "#{time},a:1"
    assert_equal [%w[y], false], after(process, id)
    process.history.stub(:now, time + 1) { process.history.interrupted }
    assert_equal [%w[y], true], after(process, id)
  end

  def test_old_publishers_are_forgotten
    process = Heard.new(1000, 1 << 20)
    events, = process.open(nil, %w[one])
    events.listen
    40.times { |index| process.hear("p#{index}", [["one", index.to_s]]) }
    ids = data_and_ids(process.cut(events)).map(&:last)
    assert_equal 32, ids.last.count(":")
    assert_operator ids.last.bytesize, :<, 300
    assert_equal %w[39], after(process, ids[-2]).first
  end

  def test_a_reader_gets_what_comes_while_it_takes_the_history_and_is_told_what_is_dropped_meanwhile
    process = Heard.new(3, 1000)
    sent = %w[one two three four live five six seven eight].map { |text| ["one", text] }
    2.times { process.hear("a", sent) }
    events, = process.open("#{process.history.position(nil).time},a:0", %w[one])
    reading = events.instance_variable_get(:@reading)
    assert_equal %w[one two], reading.more.scan(/^data: (.*)/).flatten
    2.times { process.hear("a", sent) }
    assert_empty events.texts
    assert_equal %w[three four], reading.more.scan(/^data: (.*)/).flatten
    assert_nil reading.more
    process.hear("a", sent)
    assert_equal %w[live], data_and_ids(events.texts).map(&:first)
    slow, = process.open("#{process.history.position(nil).time},a:4", %w[one])
    reading = slow.instance_variable_get(:@reading)
    assert_includes reading.more, "live"
    4.times { process.hear("a", sent) }
    assert_equal :gap, reading.more
  end

  def test_ascii_in_binary_is_text
    assert_equal [true, true, false], ["ä", "a".b, "ä".b].map { |data| Message.new(data, {}).text? }
  end

  def test_wrong_limits_and_ids
    [0, -1, nil, 1.5].each { |count| assert_raises(ArgumentError) { Gyre::Broadcast.keep("x", count) } }
    ["", "x", "1,a", "1,a:", "1,a:b", "1,:1", "1#{",a:1" * 65}", "1,a:1\n", nil].each do |id|
      assert_nil Gyre::Broadcast::History::Position.parse(id), id.inspect
    end
  end

  private

  def publish(sent, random)
    publisher = sent.keys.sample(random: random)
    sent[publisher] << [%w[one two].sample(random: random), "#{publisher}#{sent[publisher].size}"]
  end

  def data_and_ids(texts)
    texts.filter_map { |text| [text[/^data: (.*)$/, 1], text[/^id: (.*)$/, 1]] if text.include?("data: ") }
  end

  # Returns the data that a client with this id gets, and whether something is missing.
  def after(process, id)
    events, gap = process.open(id, %w[one])
    [data_and_ids(process.cut(events)).map(&:first), gap]
  end
end

class BroadcastKeptTopicsTest < Minitest::Test
  include GyreTest::Clusters

  APP = <<~'RUBY'
    require "gyre/broadcast"
    Gyre::Broadcast.connect(ENV["REDIS"]) if ENV["REDIS"]
    Gyre::Broadcast.keep("news", 1000)
    run(lambda do |env|
      if env["PATH_INFO"] == "/publish"
        Gyre::Broadcast.publish("news", env["QUERY_STRING"])
        next [200, {}, [Process.pid.to_s]]
      end
      Gyre::SSE.open(env) do |events|
        complete = Gyre::Broadcast.subscribe("news", events)
        events.write("#{Process.pid} #{complete}", event: "hello")
        events.listen
      end
    end)
  RUBY

  def test_a_client_that_changes_between_workers_gets_each_event_once
    cluster("-w", "2", app: APP) { |_, program| wander(program) }
  end

  def test_workers_that_hear_each_other_over_redis_too
    redis = GyreTest::RedisServer.new(need_program("redis-server"))
    cluster("-w", "2", app: APP, env: { "REDIS" => redis.url }) do |_, program|
      await_subscriptions(program, redis)
      wander(program)
    end
  ensure
    redis&.close
  end

  def test_ids_of_the_apps_own_are_refused
    Gyre::Broadcast.keep(:own_ids, 1)
    assert_raises(ArgumentError) { Gyre::Broadcast.publish(:own_ids, "x", id: 5) }
    assert_raises(EncodingError) { Gyre::Broadcast.publish(:own_ids, "\xff".b) }
    assert_equal 0, Gyre::Broadcast.publish(:own_ids, "x", event: "tick")
  end

  private

  # Publishes, while a client connects again and again, to whichever worker takes it.
  def wander(program)
    random = Random.new(22)
    publishers = []
    heard = []
    pids = {}
    id = take(program, nil, 0, pids).last
    until publishers.size >= 180 && [pids.size, publishers.uniq.size] == [2, 2] # which the kernel chooses
      assert_operator publishers.size, :<, 900, "one worker has served alone"
      3.times { publishers << body(program.get("/publish?#{publishers.size}")) }
      data, id = take(program, id, random.rand(1..publishers.size - heard.size), pids)
      heard.concat(data)
    end
    heard.concat(take(program, id, publishers.size - heard.size, pids).first)
    assert_equal (0...publishers.size).to_a, heard.sort
    heard.group_by { |number| publishers[number] }.each_value { |of_one| assert_equal of_one.sort, of_one }
  end

  # Only then does no worker miss what comes over Redis.
  def await_subscriptions(program, redis)
    clients = [connect(program)]
    first = greeted(clients.first)
    GyreTest::Processes.stop(first)
    clients << connect(program).tap { |client| greeted(client) }
    Process.kill(:CONT, first)
    eventually { redis.call("PUBSUB", "NUMSUB", "gyre:broadcast").last == 2 }
    redis.call("PUBLISH", "gyre:broadcast", JSON.generate(["test", 1, "text", "news", "heard", {}]))
    clients.each { |client| client.take_through("data: heard\n") }
  ensure
    Process.kill(:CONT, first) if first
    clients&.each(&:close)
  end

  # Returns the worker's pid.
  def greeted(client)
    client.take_through("event: hello\ndata: ")
    Integer(client.take_through("\n")[/\d+/])
  end

  def body(response) = response[/\d+\z/]

  def connect(program, headers = {})
    client = GyreTest::HTTPServing::Client.new(self, TCPSocket.new("127.0.0.1", program.port))
    client.request(**headers).take_through("\r\n\r\n")
    client
  end

  # Connects, takes some events and leaves. Returns their numbers and the last id.
  def take(program, id, count, pids)
    client = connect(program, id ? { last_event_id: id } : {})
    text = +""
    text << client.take_through("\n\n") until text.scan(/^data: \d+$/).size >= count && text.match?(/^id: /)
    pid, complete = text.slice!(/^event: hello\ndata: (.*)\n\n/)[/data: (.*)/, 1].split
    pids[pid] = true
    assert_equal "true", complete
    events = text.split("\n\n").grep(/^id: /)
    events = events.first(events.index { |event| event.include?("data: ") && (count -= 1).zero? }.to_i + 1)
    [events.filter_map { |event| event[/^data: (\d+)$/, 1]&.to_i }, events.last[/^id: (.*)$/, 1]]
  ensure
    client&.close
  end
end
