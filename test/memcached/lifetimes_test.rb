# frozen_string_literal: true

# What holds on to a memcached call, and what does not: inner fibers that nothing refers to any
# more, loops that end, a client that is closed, the collector and compaction in the middle.

require "test_helper"
require "memcached/clients"

class MemcachedLifetimesTest < Minitest::Test
  include MemcachedClients

  KEYS = Array.new(10) { |index| "key-#{index}" }

  def setup
    super
    @gate = Thread::Queue.new
    @server = scripted(keys: KEYS) do |command, sound, _|
      @gate.pop unless command.key == "connect"
      sound
    end
    @client = client(@server.address)
  end

  def teardown
    @gate.close
    super
  end

  def test_abandoned_inner_fibers_leave_the_pipeline_in_step
    with_jobs(:fibers) do
      @client.get("connect")
      abandon_inner_fibers
      3.times { GC.start }
      call = job { @client.get("key-9") }
      20.times { @gate << :go }
      assert_equal value_of("key-9"), value(call)
    end
    assert_equal 1, @server.connections_count
  end

  def test_calls_of_a_loop_that_ends_leave_the_client_usable
    thread = Thread.new do
      Gyre.run do |task|
        @client.get("connect")
        KEYS.each { |key| task.async { @client.get(key) } }
        sleep 0
        raise "the end of this loop"
      end
    end
    thread.report_on_exception = false
    assert_equal "the end of this loop", assert_raises(RuntimeError) { thread.value }.message
    @gate.close
    assert_equal value_of("key-1"), @client.get("key-1")
    with_jobs(:fibers) { assert_equal value_of("key-2"), @client.get("key-2") }
  end

  def test_calls_of_a_thread_with_a_loop_that_is_killed
    begun = Thread::Queue.new
    thread = Thread.new do
      Gyre.run do |task|
        @client.get("connect")
        KEYS.each { |key| task.async { @client.get(key) } }
        task.async { begun << true }
      end
    end
    begun.pop
    eventually { @server.commands.size > 1 }
    thread.kill.join
    @gate.close
    assert_equal value_of("key-1"), @client.get("key-1")
  end

  JOBS.each do |jobs|
    define_method(:"test_#{jobs}_that_wait_when_the_client_is_closed_fail_and_it_can_be_used_again") do
      with_jobs(jobs) do
        @client.get("connect")
        calls = KEYS.map { |key| job { outcome { @client.get(key) } } }
        parked(*calls)
        @client.close
        calls.each do |call|
          error = value(call)
          assert_kind_of Failure, error
          assert_includes error.message, @server.address
        end
        @gate.close
        assert_equal value_of("key-1"), @client.get("key-1")
      end
    end

    define_method(:"test_#{jobs}_wait_while_everything_is_moved") do
      with_jobs(jobs) do
        @client.get("connect")
        calls = KEYS.map { |key| [key, job { @client.get(key) }] }
        parked(*calls.map(&:last))
        move_objects
        20.times { @gate << :go }
        calls.each { |key, job| assert_equal value_of(key), value(job) }
      end
    end
  end

  def test_closed_by_another_thread_while_fibers_wait
    with_jobs(:fibers) do
      @client.get("connect")
      calls = KEYS.map { |key| job { outcome { @client.get(key) } } }
      parked(*calls)
      closing = Thread.new { @client.close }
      calls.each { |call| assert_kind_of Failure, value(call) }
      closing.join
    end
  end

  class OddKey < String
    def eql?(_other) = raise("never called")
  end

  def test_keys_of_a_subclass_run_no_code_in_the_loop
    @gate.close
    with_jobs(:fibers) { assert_equal({ "key-1" => value_of("key-1") }, @client.get_multi(OddKey.new("key-1"), OddKey.new("key-1"))) }
  end

  # A namespace may leave the fiber for ever: then nothing of its call is under way.
  def test_a_namespace_that_leaves_its_fiber
    leaves = true
    namespace = -> { leaves ? Fiber.yield : "n" }
    client = client(@server.address, namespace: namespace)
    Fiber.new { client.get_multi("key-1", "key-2") }.resume
    leaves = false
    @gate.close
    assert_nil client.get("key-3")
  end

  # The first thread reads for all; when it has its value, it goes on before the next one can read.
  def test_a_thread_that_closes_the_client_at_once_leaves_no_other_one_waiting
    @client.get("connect")
    first = Thread.new { @client.get("key-0").tap { @client.close } }
    parked(first)
    others = KEYS.first(4).map { |key| Thread.new { outcome { @client.get(key) } } }
    parked(*others)
    @gate << :go
    assert_equal value_of("key-0"), first.value
    others.each { |thread| assert_kind_of Failure, thread.value }
  end

  def test_a_signal_handler_calls_while_its_thread_waits_for_a_reply
    @client.get("connect")
    called = found = nil
    before = trap("USR2") { called = true and found = @client.get("key-1") }
    other = Thread.new do
      eventually { @server.commands.any? { |command| command.key == "key-0" } }
      Process.kill("USR2", Process.pid)
      eventually { called }
      2.times { @gate << :go }
    end
    assert_operator duration_s { assert_equal value_of("key-0"), @client.get("key-0") }, :<, 30, "its time is 60 s"
    assert_equal value_of("key-1"), found
    other.join
  ensure
    trap("USR2", before)
  end

  def test_the_collector_at_each_allocation
    @gate.close
    JOBS.each do |jobs|
      with_jobs(jobs) do
        @client.get("connect")
        GC.stress = 1 # the young generation only, else it takes minutes
        calls = KEYS.first(4).map { |key| [key, job { [@client.set(key, value_of(key)), @client.get(key), @client.get_multi(key, "missing")] }] }
        results = calls.map { |key, job| [key, value(job)] }
        GC.stress = false
        results.each { |key, result| assert_equal [value_of(key), { key => value_of(key) }], result.drop(1) }
      ensure
        GC.stress = false
      end
      @jobs.clear
    end
  end

  # In a process of its own, for the collector may find one of them on this one's stack.
  def test_clients_that_nothing_refers_to_give_their_descriptors_back
    @gate.close
    output = ruby("-e", <<~RUBY, @server.address)
      require "gyre/memcached"
      descriptors = -> { Dir.children("/proc/self/fd").size }
      use = -> { Gyre::Memcached::Client.new(ARGV[0], socket_timeout: 60).get("key-1") }
      use.call
      before = descriptors.call
      results = Array.new(30) { use.call }
      4.times { GC.start }
      puts results.uniq, descriptors.call - before < 10
    RUBY
    assert_equal "#{value_of("key-1")}\ntrue\n", output.out, output.err
  end

  private

  # Each waits for its reply within an inner fiber, and then its task ends.
  def abandon_inner_fibers
    tasks = Array.new(5) do |number|
      job { Fiber.new { @client.get(KEYS[number]) }.resume }
    end
    eventually { @server.commands.any? { |command| command.key != "connect" } }
    tasks.each(&:stop)
    @jobs.clear
  end
end
