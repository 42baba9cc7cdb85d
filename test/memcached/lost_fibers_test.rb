# frozen_string_literal: true

# A fiber of another library's scheduler waits for its reply, and the scheduler drops it without an
# exception: threads and other fibers still get theirs, on the same connection.

require "test_helper"
require "memcached/clients"

class MemcachedLostFibersTest < Minitest::Test
  include MemcachedClients

  LIMIT_S = 0.2

  # What waits under it is never resumed.
  class Dropping
    def fiber(&block) = Fiber.new(blocking: false, &block).tap(&:resume)
    def io_wait(*) = Fiber.yield
    def block(*) = Fiber.yield
    def kernel_sleep(*) = Fiber.yield
    def unblock(*) = nil
    def fiber_interrupt(*) = nil
    def close = nil
  end

  # Its only thread runs one fiber, and that not before it is told to when it has waited.
  class Pausing < Dropping
    attr_reader :events

    def initialize
      super
      @events = Thread::Queue.new
      @resume = Thread::Queue.new
    end

    def fiber(&block) = @fiber = super
    def resume = @resume << true

    def block(*)
      @events << :waits
      super
    end

    def close
      return if @closed

      @closed = true
      @resume.pop
      @fiber.resume(1) while @fiber.alive?
    end
  end

  def setup
    super
    @gate = Thread::Queue.new
    @server = scripted(keys: %w[a b c connect]) do |command, sound, _|
      @gate.pop unless command.key == "connect"
      sound
    end
  end

  def teardown
    @gate.close
    super
  end

  [60, nil].each do |limit_s|
    define_method(:"test_a_fiber_is_dropped_and_a_thread_gets_its_reply#{"_without_a_limit_of_time" unless limit_s}") do
      client = connected(limit_s)
      lose { client.get("a") }
      call = Thread.new { client.get("b") }
      parked(call)
      2.times { @gate << :go }
      assert_equal value_of("b"), call.value
      assert_equal value_of("connect"), client.get("connect")
      assert_equal 1, @server.connections_count
    end
  end

  def test_a_fiber_is_dropped_and_the_server_does_not_reply
    client = connected(LIMIT_S, socket_max_failures: 1)
    lose { client.get("a") }
    error = assert_raises(Gyre::Memcached::NetworkError) { client.get("b") }
    assert_includes error.message, "get at memcached #{@server.address}: no reply within #{LIMIT_S} s"
  end

  def test_a_fiber_is_dropped_while_others_wait
    client = connected(60, socket_max_failures: 1)
    first = Thread.new { client.get("a") }
    parked(first)
    lose { client.get("b") }
    last = Thread.new { client.get("c") }
    parked(last)
    3.times { @gate << :go }
    assert_equal [value_of("a"), value_of("c")], [first.value, last.value]
    assert_equal 1, @server.connections_count
  end

  def test_a_fiber_goes_on_long_after_its_reply_has_come
    client = connected(60)
    scheduler = Pausing.new
    found = Thread::Queue.new
    thread = Thread.new do
      set_scheduler(scheduler)
      Fiber.schedule { found << client.get("a") }
    end
    scheduler.events.pop
    2.times { @gate << :go }
    assert_equal value_of("b"), client.get("b")
    scheduler.resume
    thread.join
    assert_equal value_of("a"), found.pop(true)
    assert_equal value_of("connect"), client.get("connect")
    assert_equal 1, @server.connections_count
  end

  def test_the_connection_of_a_dropped_fiber_can_be_closed
    client = connected(60)
    lose { client.get("a") }
    connection = client.instance_variable_get(:@single).connection
    eventually { connection.close }
    @gate.close
    assert_equal value_of("b"), client.get("b")
  end

  private

  def connected(limit_s, **options)
    client = client(@server.address, **options, socket_timeout: limit_s)
    client.get("connect")
    client
  end

  # Without a warning: with the hook fiber_interrupt Ruby 4.0 aborts where an IO is closed that a
  # fiber was dropped in.
  def set_scheduler(scheduler)
    verbose, $VERBOSE = $VERBOSE, nil
    Fiber.set_scheduler(scheduler)
  ensure
    $VERBOSE = verbose
  end

  # The block's fiber waits, and is let go then.
  def lose(&block)
    Thread.new do
      set_scheduler(Dropping.new)
      Fiber.schedule(&block)
    end.join
    GC.start
  end
end
