# frozen_string_literal: true

# Promises of client.async in threads without a loop: several threads wait for one, each as long as
# it likes. What befalls one of them is its own affair: the reply is kept, and sent for once.

require "test_helper"
require "memcached/clients"

class MemcachedPromisesTest < Minitest::Test
  include MemcachedClients

  class Left < StandardError; end

  def setup
    super
    @gate = Thread::Queue.new
    @server = scripted(keys: ["key"]) do |command, sound, _|
      @gate.pop unless command.key == "connect"
      sound
    end
    @server.store("counter", "6", flags: 0)
    @client = client(@server.address)
    @client.get("connect")
  end

  def teardown
    @gate.close
    super
  end

  # The first one reads for all.
  def test_a_thread_whose_time_is_over_leaves_the_reply_to_the_other
    promise = @client.async.get("key")
    first = Thread.new { assert_raises(Gyre::TimeoutError) { promise.wait(timeout: 0.05) } }
    parked(first)
    others = Array.new(3) { Thread.new { promise.wait } }
    parked(*others)
    first.join
    assert_predicate promise, :pending?
    @gate << :go
    assert_equal [value_of("key")] * 3, others.map(&:value)
  end

  def test_an_exception_of_one_thread_is_not_the_others
    promise = @client.async.get("key")
    first, *others = Array.new(4) { Thread.new { promise.wait }.tap { |thread| parked(thread) } }
    [first, others.pop].each do |thread|
      thread.report_on_exception = false
      thread.raise(Left)
      assert_raises(Left) { thread.value }
    end
    @gate << :go
    assert_equal [value_of("key")] * 2, others.map(&:value)
  end

  { get: ["key", "the value of key"], incr: ["counter", 7] }.each do |name, (key, expected)|
    define_method(:"test_#{name}_is_waited_for_again_after_its_time_and_sent_once") do
      promise = @client.async.public_send(name, key)
      2.times { assert_raises(Gyre::TimeoutError) { promise.wait(timeout: 0.01) } }
      assert_raises(Gyre::TimeoutError) { promise.wait(timeout: 0) }
      @gate << :go
      assert_equal expected, promise.wait
      assert_equal 1, @server.commands.count { |command| command.key == key }
    end
  end

  def test_fibers_of_a_loop_may_wait_for_it_as_well
    promise = @client.async.get("key")
    thread = Thread.new { promise.wait }
    parked(thread)
    Gyre.run do |task|
      waits = Array.new(2) { task.async { promise.wait } }
      waits << task.async { assert_raises(Gyre::TimeoutError) { promise.wait(timeout: 0.01) } && value_of("key") }
      parked(*waits)
      waits.last.wait
      @gate << :go
      assert_equal [value_of("key")] * 3, waits.map(&:wait)
    end
    assert_equal value_of("key"), thread.value
  end

  # Its connection fails under it.
  def test_a_command_is_sent_again_once_however_many_wait
    ending = lambda do |command, sound, number|
      @gate.pop unless command.key == "connect"
      number == 1 && command.key != "connect" ? :close : sound
    end
    @server.script = ending
    promise = @client.async.get("key")
    waits = Array.new(3) { Thread.new { promise.wait } }
    parked(*waits)
    @gate.close
    assert_equal [value_of("key")] * 3, waits.map(&:value)
    assert_equal 2, @server.commands.count { |command| command.key == "key" }
  end

  def test_one_that_cannot_be_repeated_has_the_error_for_all
    @server.script = ->(*) { @gate.pop || :close }
    promise = @client.async.incr("counter")
    waits = Array.new(3) { Thread.new { outcome { promise.wait } } }
    parked(*waits)
    @gate.close
    assert_equal [Gyre::Memcached::NetworkError], waits.map(&:value).map(&:class).uniq
    assert_equal 1, @server.commands.count { |command| command.key == "counter" }
  end

  # While it connects, and before it is waited for.
  def test_what_takes_several_commands_is_under_way_at_once_and_ends_its_wait_in_time
    slow = scripted { |command, sound, _| command.name == "version" ? @gate.pop && sound : sound }
    client = client(slow.address, username: "me", password: "secret")
    promise = client.async.set_multi({ "a" => "1" })
    eventually { slow.commands.any? }
    assert_raises(Gyre::TimeoutError) { promise.wait(timeout: 0.05) }
    2.times { @gate << :go } # the login and the first value ask the version
    eventually { slow.values.key?("a") }
    assert_nil promise.wait
    assert_equal "1", client.async.fetch("a").wait
    assert_equal "made", client.async.fetch("b") { "made" }.wait
  end

  def test_a_server_that_is_away_rejects_it
    promise = client("127.0.0.1:1", socket_failure_delay: nil).async.get("key")
    assert_raises(Gyre::Memcached::NoServerError) { promise.wait }
    assert_predicate promise, :rejected?
  end
end
