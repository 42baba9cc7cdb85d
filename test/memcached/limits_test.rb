# frozen_string_literal: true

# The edges of what a memcached client takes and keeps: keys, values, users, and a queue that a
# stopped server lets grow.

require "test_helper"
require "memcached/clients"

class MemcachedLimitsTest < Minitest::Test
  include MemcachedClients

  VALUES = { "empty" => "", "one byte" => "a", "binary" => (0..255).map(&:chr).join.b, "protocol" => "HD\r\nVA 3\r\nabc\r\n",
             "text" => "\u00fc\u{1f600}", "zeros" => "\0" * 100, "64 KB" => "x" * 65_536, "half a MB" => Random.new(1).bytes(500_000) }.freeze

  KINDS.product(JOBS) do |kind, jobs|
    define_method(:"test_#{kind}_#{jobs}_values_come_back_as_they_were") do
      client = client(memcached_of(kind).address, kind: kind)
      with_jobs(jobs) do
        calls = VALUES.map { |name, value| [value, job { client.set(name.tr(" ", "_"), value) && client.get(name.tr(" ", "_")) }] }
        calls.each do |expected, job|
          found = value(job)
          assert_equal expected, found
          assert_equal expected.encoding, found.encoding
        end
      end
    end
  end

  # What a turn reads is bounded, and the kernel knows nothing of what TLS holds when it ends. All
  # of a value has come before the first byte is read, a little more of it than a turn takes: the
  # server holds it back until the loop stands still.
  JOBS.each do |jobs|
    define_method(:"test_tls_#{jobs}_read_to_its_end_a_value_that_has_come_at_once") do
      server = scripted(:tls)
      asked, release, written = Array.new(3) { Thread::Queue.new }
      server.define_singleton_method(:write) do |stream, replies|
        whole = replies.bytesize > 1_000_000
        release.pop if whole && asked << true
        super(stream, replies).tap { written << true if whole }
      end
      client = client(server.address, kind: :tls, socket_timeout: 10)
      with_jobs(jobs) do
        (1_050_000..1_110_000).step(10_000) do |bytes|
          server.store("value", "x" * bytes)
          got = client.async.get("value")
          asked.pop
          release << true
          Fiber.new(blocking: true) { eventually(what: "the whole value in the sockets' buffers") { !written.empty? } }.resume
          written.pop
          assert_equal bytes, got.wait.bytesize
        end
      end
    ensure
      release&.close # after a failure, too, the server's thread ends
    end
  end

  def test_keys_at_their_limits
    client = client(memcached.address)
    ["a", "a" * 249, "a" * 250, "a" * 251, "a" * 1000, "\u00fc" * 93, "\u00fc" * 200, "a b", "~!", :symbol, 17].each do |key|
      assert client.set(key, "of #{key}"), key
      assert_equal "of #{key}", client.get(key)
      assert_equal({ key.to_s => "of #{key}" }, client.get_multi(key))
      assert client.delete(key)
      assert_nil client.get(key)
    end
  end

  def test_keys_that_are_refused_are_not_sent
    server = scripted
    client = client(server.address)
    ["", "a\nb", "a\r\nmn", "a\0", "\x7f", nil].each do |key|
      assert_raises(ArgumentError, key.inspect) { client.get(key) }
      assert_raises(ArgumentError, key.inspect) { client.set(key, "x") }
      assert_raises(ArgumentError, key.inspect) { client.delete(key) }
      assert_raises(ArgumentError, key.inspect) { client.get_multi("good", key) } unless key.nil? # as in Dalli, none
    end
    assert_empty server.commands.map(&:name) - ["version"]
  end

  def test_a_value_over_the_limit_is_refused_before_it_is_sent
    server = scripted
    client = client(server.address, value_max_bytes: 1000, compress: false)
    largest = 1000.downto(800).find { |size| client.set("key", "x" * size) rescue false }
    assert_operator largest, :>, 900 # an item has its key and memcached's own bytes, too
    assert_equal largest, client.get("key").bytesize
    assert_raises(ArgumentError) { client.set("key", "x" * (largest + 1)) }
    assert_raises(ArgumentError) { client.set_multi("key" => "x" * (largest + 1), "b" => "x") }
    assert_equal [largest], server.commands.select { |command| command.key == "key" && command.data }.map { |command| command.data.bytesize }
  end

  def test_a_value_over_the_limit_of_the_server_fails_and_the_next_one_does_not
    client = client(memcached(value_bytes_limit: 524_288).address, compress: false)
    JOBS.each do |jobs|
      with_jobs(jobs) do
        calls = [100, 524_280, 200, 900_000, 300].map { |size| [size, job { outcome { client.set("key-#{size}", "x" * size) } }] }
        calls.each { |size, job| size > 1000 ? assert_kind_of(Failure, value(job)) : assert(value(job)) }
        [100, 200, 300].each { |size| assert_equal size, client.get("key-#{size}").bytesize }
        assert_nil client.get("key-524280")
      end
      @jobs.clear
    end
  end

  def test_a_full_memory_is_an_error_of_the_server
    client = client(memcached(memory_mb: 8, evict: false).address, compress: false)
    results = Array.new(60) { |index| outcome { client.set("key-#{index}", "x" * 400_000) } }
    assert_kind_of Gyre::Memcached::ServerError, results.grep(Exception).first
    assert_equal 400_000, client.get("key-0").bytesize
  end

  KINDS.each do |kind|
    define_method(:"test_#{kind}_with_users") do
      server = kind == :tls ? secure_memcached(users: { "me" => "secret" }) : memcached(unix: kind == :unix, users: { "me" => "secret" })
      good = client(server.address, kind: kind, username: "me", password: "secret")
      assert good.set("a", "b")
      with_jobs(:fibers) { assert_equal "b", good.get("a") }
      bad = client(server.address, kind: kind, username: "me", password: "wrong")
      error = assert_raises(Failure) { bad.get("a") }
      assert_includes error.message, server.address
      refute_includes error.full_message, "wrong"
      assert_raises(Failure) { client(server.address, kind: kind).get("a") }
    end
  end

  def test_a_server_without_users_stores_no_password
    server = memcached
    client = client(server.address, username: "me", password: "secret")
    assert client.set("a", "b")
    assert_nil client.get("auth")
    assert_equal "1", server.stats["curr_items"]
  end

  def test_a_stopped_server_does_not_let_the_queue_grow_without_end
    server = memcached
    client = client(server.address, compress: false)
    value = "x" * 65_536
    with_jobs(:fibers) do
      client.set("first", "x")
      server.stop
      before = resident_kb
      calls = Array.new(1000) { |index| [index, job { client.set("key-#{index % 50}", value) }] }
      parked(calls.last.last)
      assert_kept_less_than(40_000, since: before) # of 64 MB
      server.continue
      calls.each { |_, job| assert value(job) }
    end
    assert_equal value, client.get("key-1")
  ensure
    server&.continue
  end

  def test_so_does_a_stopped_server_for_threads
    server = memcached
    client = client(server.address, compress: false)
    value = "x" * 900_000
    client.set("first", "x")
    server.stop
    before = resident_kb
    with_jobs(:threads) do
      calls = Array.new(40) { |index| job { client.set("key-#{index % 5}", value) } }
      parked(*calls)
      assert_kept_less_than(25_000, since: before) # of 36 MB
      server.continue
      calls.each { |job| assert value(job) }
    end
  ensure
    server&.continue
  end

  JOBS.each do |jobs|
    define_method(:"test_a_quiet_block_of_#{jobs}_keeps_nothing_of_what_it_has_sent") do
      client = client(memcached.address, compress: false)
      with_jobs(jobs) do
        client.set("first", "x")
        before = live_objects
        client.quiet do
          30_000.times { |index| client.set("key-#{index % 50}", index.to_s * 200) }
          assert_operator live_objects - before, :<, 3_000
        end
        assert_equal "29999" * 200, client.get("key-49")
      end
    end
  end

  private

  # Not with sanitizers, which keep what was freed: the rest of the test is for them.
  def assert_kept_less_than(limit_kb, since:)
    assert_operator resident_kb - since, :<, limit_kb unless ENV["LD_PRELOAD"].to_s.include?("asan")
  end

  def live_objects
    GC.start
    GC.stat(:heap_live_slots)
  end

  def resident_kb
    File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i
  end
end
