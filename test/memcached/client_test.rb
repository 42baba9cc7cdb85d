# frozen_string_literal: true

# The client's calls against memcached, from fibers and from plain threads.
require "test_helper"
require "set"
require "gyre/memcached"
require "support/memcached_server"

class MemcachedClientTest < Minitest::Test
  include GyreTest::MemcachedServers

  def setup
    @server = memcached
    @client = Gyre::Memcached::Client.new(@server.address, socket_timeout: 60)
  end

  def teardown
    @client.close
    super
  end

  def test_values_are_stored_and_found_and_deleted_by_a_thread_without_a_loop
    check_values
  end

  def test_values_are_stored_and_found_and_deleted_by_a_fiber
    Gyre.run { check_values }
  end

  def test_a_value_larger_than_a_read_arrives_whole
    value = "0123456789abcdef" * 50_000
    [-> { roundtrip(value) }, -> { Gyre.run { roundtrip(value) } }].each { |home| assert_equal value, home.call }
  end

  def test_keys_with_spaces_and_other_alphabets_are_sent_in_base64
    @client.set("größe in m", 2)
    assert_equal 2, @client.get("größe in m")
  end

  def test_a_key_with_control_characters_is_refused_before_anything_is_sent
    assert_raises(ArgumentError) { @client.get("a\r\nflush_all\r\n") }
    assert_raises(ArgumentError) { @client.get("") }
  end

  def test_replies_reach_the_fibers_that_asked
    Gyre.run do |task|
      jobs = Array.new(50) { |number| task.async { 10.times.map { |round| turn("#{number} #{round}") } } }
      jobs.each_with_index { |job, number| assert_equal Array.new(10) { |round| "#{number} #{round}" }, job.wait }
    end
  end

  def test_replies_reach_the_threads_that_asked
    threads = Array.new(8) { |number| Thread.new { 10.times.map { |round| turn("#{number} #{round}") } } }
    threads.each_with_index { |thread, number| assert_equal Array.new(10) { |round| "#{number} #{round}" }, thread.value }
  end

  def test_delete_multi_takes_one_key_too_and_no_second_list
    @client.set_multi({ "a" => 1, "b" => 2, "c" => 3 })
    assert_equal [1, 1, 1], [@client.delete_multi("a"), @client.delete_multi(:b), @client.delete_multi(Set["c", "none"])]
    assert_match(/in an Array/, assert_raises(ArgumentError) { @client.delete_multi("a", "b") }.message)
  end

  def test_options_may_be_a_hash
    client = Gyre::Memcached::Client.new(@server.address, { namespace: "app", raw: true }, raw: false)
    client.set("key", 1)
    assert_equal [1, nil], [client.get("key"), @client.get("key")]
    assert_equal 1, @client.get("app:key")
    assert_raises(ArgumentError) { Gyre::Memcached::Client.new(@server.address, { namspace: "app" }) }
    assert_raises(ArgumentError) { Gyre::Memcached::Client.new("127.0.0.1", "127.0.0.2") }
  ensure
    client&.close
  end

  def test_a_client_of_no_servers_is_an_error
    ["", " , ", []].each do |servers|
      assert_match(/names none; give addresses like/, assert_raises(ArgumentError) { Gyre::Memcached::Client.new(servers) }.message)
    end
  end

  def test_a_client_cannot_be_made_shareable_and_works_on
    error = assert_raises(TypeError) { Ractor.make_shareable(@client) }
    assert_equal "a memcached client cannot be frozen, nor given to another Ractor: make one there", error.message
    refute @client.frozen?
    assert_kind_of Integer, @client.set("key", 1)
  end

  def test_a_ractor_makes_its_own_client
    output = ruby("-W:no-experimental", "-e", <<~RUBY, @server.address)
      require "gyre/memcached"
      begin
        Ractor.new(Gyre::Memcached::Client.new(ARGV[0])) { |client| client }
      rescue TypeError => error
        puts error.message
      end
      made = Ractor.new(ARGV[0]) { |address| Gyre::Memcached::Client.new(address).then { |client| client.set("key", 5) && client.get("key") } }
      puts made.respond_to?(:value) ? made.value : made.take
    RUBY
    assert_equal "a memcached client cannot be given to another Ractor: make one there\n5\n", output.out, output.err
  end

  def test_constants_can_be_read_by_each_ractor
    unshareable = namespaces(Gyre::Memcached).flat_map do |space|
      space.constants(false).reject { |name| Ractor.shareable?(space.const_get(name)) }.map { |name| "#{space}::#{name}" }
    end
    assert_empty unshareable
  end

  def test_a_ractor_can_call_each_method
    output = ruby("-W:no-experimental", "-e", <<~'RUBY', @server.address)
      require "gyre/memcached"
      work = Ractor.new(ARGV[0]) do |address|
        client = Gyre::Memcached::Client.new(address, socket_timeout: 60)
        nils = Gyre::Memcached::Client.new(address, socket_timeout: 60, cache_nils: true, compression_min_size: 10)
        [client.set("a", { b: [1, 2.5, nil] }), client.get("a"), client.get("a", cache_nils: true), client.add("n", 1), client.replace("n", 2),
         client.touch("n", 60), client.gat("n", 60), client.incr("c", 1, 60, 5), client.decr("c"), client.set("t", "x", 60, { raw: true }),
         client.append("t", "y"), client.prepend("t", "w"), client.cas("n") { |number| number + 1 }, client.get_cas("n").first,
         client.fetch("f") { 1 }, nils.fetch("none") { nil }, nils.set("z", "z" * 100), nils.get("z"), client.fetch_with_lock("l", ttl: 9) { 2 },
         client.get_multi("n", "f"), client.set_multi({ "x" => 1, "y" => "2" }), client.delete_multi(%w[x y]),
         client.get_with_metadata_result("n").hit?, client.quiet { client.set("q", 1) || client.flush(90) },
         client.pipeline { |batch| batch.get("q").incr("c").delete("q", { invalidate: true }) }, client.async.get("n").wait,
         client.async.fetch("m") { 7 }.wait, Gyre.run { client.async.set("n", 1).wait && client.async.get_multi("n").wait },
         client.stats.size, client.version.size, client.flush, client.close].size
      end
      puts work.respond_to?(:value) ? work.value : work.take
    RUBY
    assert_equal "32\n", output.out, output.err
  end

  private

  def namespaces(space)
    inner = space.constants(false).map { |name| space.const_get(name) }.grep(Module).select { |each| each.name.start_with?("#{space}::") }
    [space, *inner.flat_map { |each| namespaces(each) }]
  end

  def check_values
    assert_kind_of Integer, @client.set("text", "Grüße")
    assert_equal "Grüße", @client.get("text")
    assert_equal Encoding::UTF_8, @client.get("text").encoding
    @client.set("things", [1, { "a" => nil }])
    assert_equal [1, { "a" => nil }], @client.get("things")
    assert_nil @client.get("nothing")
    assert_equal [true, false], [@client.delete("text"), @client.delete("text")]
    assert_nil @client.get("text")
  end

  def roundtrip(value)
    @client.set("large", value)
    @client.get("large")
  end

  def turn(text)
    @client.set(text, text)
    @client.get(text)
  ensure
    @client.delete(text)
  end
end
