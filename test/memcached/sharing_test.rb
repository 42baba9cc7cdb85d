# frozen_string_literal: true

# One memcached client used by everything at once: threads without a loop, loops of several threads,
# children of a fork. Each call gets its own value, and a child its own connection.

require "test_helper"
require "memcached/clients"

class MemcachedSharingTest < Minitest::Test
  include MemcachedClients

  KINDS.each do |kind|
    define_method(:"test_#{kind}_threads_and_fibers_of_several_loops_use_one_client") do
      server = memcached_of(kind)
      client = client(server.address, kind: kind)
      threads = Array.new(4) { |number| Thread.new { use(client, "thread-#{number}", 60) } }
      loops = Array.new(2) do |number|
        Thread.new { Gyre.run { |task| Array.new(20) { |fiber| task.async { use(client, "fiber-#{number}-#{fiber}", 15) } }.map(&:wait) } }
      end
      assert_equal [60] * 4, threads.map(&:value)
      assert_equal [[15] * 20] * 2, loops.map(&:value)
    end
  end

  def test_the_threads_without_a_loop_share_one_connection
    server = scripted
    client = client(server.address)
    Array.new(5) { |number| Thread.new { use(client, "thread-#{number}", 20) } }.each(&:join)
    assert_equal 1, server.connections_count
  end

  def test_the_fibers_of_a_loop_share_one_connection
    server = scripted
    client = client(server.address)
    with_jobs(:fibers) { Array.new(50) { |number| job { use(client, "fiber-#{number}", 4) } }.each { |job| value(job) } }
    assert_equal 1, server.connections_count
  end

  def test_a_child_of_a_fork_has_connections_of_its_own
    server = memcached
    client = client(server.address)
    assert client.set("parent", "1")
    assert_equal "child 1", in_a_child { "child #{client.get("parent")}" }
    assert_equal "1", client.get("parent")
  end

  JOBS.each do |jobs|
    define_method(:"test_a_fork_in_the_middle_of_calls_of_#{jobs}") do
      gate = Thread::Queue.new
      keys = Array.new(8) { |index| "key-#{index}" }
      server = scripted(keys: keys) do |command, sound, number|
        gate.pop if number == 1 && command.key != "connect"
        sound
      end
      client = client(server.address)
      with_jobs(jobs) do
        client.get("connect")
        calls = keys.map { |key| [key, job { client.get(key) }] }
        parked(*calls.map(&:last))
        eventually { server.commands.size > 1 }
        assert_equal value_of("key-5"), in_a_child { client.get("key-5") }
        keys.size.times { gate << :go }
        calls.each { |key, job| assert_equal value_of(key), value(job) }
      end
      assert_equal 2, server.connections_count
    ensure
      gate.close
    end
  end

  JOBS.each do |jobs|
    define_method(:"test_a_child_waits_for_what_was_started_before_the_fork_with_#{jobs}") do
      server = scripted(keys: %w[a b])
      client = client(server.address)
      with_jobs(jobs) do
        client.get("connect")
        commands, held = %i[@commands @single].map { |name| client.instance_variable_get(name) }
        started, counter = [commands.get("a"), commands.incr("b")].map { |command| [command, held.carry_out(command, :hold)] }
        assert_equal value_of("a"), in_a_child { client.finish(*started) }
        assert_includes in_a_child { client.finish(*counter) }, "incr at memcached #{server.address}: it was started before a fork"
        assert_equal value_of("a"), client.finish(*started)
        assert_equal value_of("b"), client.get("b")
      end
    end
  end

  # Another fiber of its thread connects, and does not run meanwhile: it must not be waited for.
  def test_a_blocking_fiber_of_a_loops_thread_connects_by_itself
    gate = Thread::Queue.new
    server = scripted(keys: %w[a b]) { |command, sound, number| command.name == "version" && number == 1 ? gate.pop && sound : sound }
    client = client(server.address, username: "me", password: "secret")
    with_jobs(:fibers) do
      connecting = job { client.get("a") }
      eventually { server.commands.any? }
      assert_equal value_of("b"), Fiber.new(blocking: true) { client.get("b") }.resume
      gate << :go
      assert_equal value_of("a"), value(connecting)
    end
  ensure
    gate.close
  end

  # Its descriptors are copies of the parent's: closing them must not end the parent's connection.
  def test_a_child_that_closes_the_client_leaves_the_parent_its_connection
    server = scripted(keys: ["a"])
    client = client(server.address)
    with_jobs(:threads) do
      assert_equal value_of("a"), client.get("a")
      assert_equal "closed", in_a_child { client.close.then { "closed" } }
      assert_equal value_of("a"), client.get("a")
    end
    assert_equal 1, server.connections_count
  end

  private

  def use(client, prefix, rounds)
    rounds.times do |round|
      key = "#{prefix}-#{round}"
      assert client.set(key, value_of(key))
      assert_equal value_of(key), client.get(key)
      assert_nil client.get("#{key}-missing")
      assert client.delete(key) if round.odd?
    end
    rounds
  end

  # Returns what the block returned, in the child.
  def in_a_child
    reader, writer = IO.pipe
    pid = fork do
      writer.write(yield)
    rescue Exception => error # rubocop:disable Lint/RescueException
      writer.write(error.full_message)
    ensure
      writer.close
      exit!(0)
    end
    writer.close
    reader.read
  ensure
    reader.close
    Process.wait(pid)
  end
end
