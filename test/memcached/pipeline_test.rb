# frozen_string_literal: true

# Commands that are sent before earlier ones have their replies: batches, quiet blocks, promises;
# with a loop and without one.
require "test_helper"
require "gyre/memcached"
require "gyre/testing"
require "support/memcached_server"

class MemcachedPipelineTest < Minitest::Test
  include GyreTest::MemcachedServers

  HOMES = { "a_thread" => ->(&block) { block.call }, "a_fiber" => ->(&block) { Gyre.run { block.call } } }.freeze

  def setup
    @server = memcached
    @client = Gyre::Memcached::Client.new(@server.address, socket_timeout: 60)
  end

  def teardown
    @client.close
    super
  end

  HOMES.each do |home, within|
    define_method(:"test_a_batch_of_#{home}_has_its_results_in_order") do
      within.call do
        results = @client.pipeline do |batch|
          batch.set("a", [1])
          batch.get("a").incr("counter", 1, nil, 5).delete("nothing")
          batch.get("nothing")
        end
        assert_kind_of Integer, results.shift
        assert_equal [[1], 5, false, nil], results
      end
    end

    define_method(:"test_a_batch_of_#{home}_raises_its_first_error_and_carries_out_the_rest") do
      within.call do
        @client.set("text", "text")
        error = assert_raises(Gyre::Memcached::CommandError) do
          @client.pipeline { |batch| batch.incr("text").set("behind", 1) }
        end
        assert_includes error.message, "incr at memcached #{@server.address}"
        assert_equal 1, @client.get("behind")
      end
    end

    # They would overwrite what is stored meanwhile.
    define_method(:"test_a_batch_of_#{home}_whose_block_raises_sends_nothing") do
      within.call do
        @client.set("key", "old")
        assert_raises(KeyError) { @client.pipeline { |batch| batch.set("key", "of the batch") && {}.fetch(:none) } }
        @client.pipeline { |batch| batch.set("key", "of the batch") && break }
        assert_equal "old", @client.get("key")
      end
    end

    define_method(:"test_a_batch_of_#{home}_stores_what_its_block_gave_it") do
      within.call do
        key, value = +"a", "1" * 100
        @client.pipeline do |batch|
          batch.set(key, value)
          batch.set(key.replace("b"), value.replace("2"))
          key.replace("c")
        end
        assert_equal({ "a" => "1" * 100, "b" => "2" }, @client.get_multi("a", "b", "c"))
      end
    end

    define_method(:"test_what_is_held_back_by_#{home}_leaves_also_when_others_cannot_be_started") do
      within.call do
        server = @client.instance_variable_get(:@single)
        command = @client.instance_variable_get(:@commands).set("key", "held")
        assert_raises(KeyError) { Gyre::Memcached::Server.together([server]) { server.carry_out(command, :hold) && {}.fetch(:none) } }
        other = Gyre::Memcached::Client.new(@server.address, socket_timeout: 60)
        eventually { other.get("key") == "held" }
      ensure
        other&.close
      end
    end

    define_method(:"test_a_batch_of_#{home}_may_be_larger_than_the_queue") do
      within.call do
        count = 70_000
        assert_equal count, @client.pipeline { |batch| count.times { batch.get("nothing") } }.size
        assert_nil @client.get("nothing")
      end
    end

    define_method(:"test_promises_of_#{home}_are_under_way_at_once") do
      within.call do
        promises = Array.new(20) { |number| @client.async.set("key#{number}", number) }
        assert(promises.all? { |promise| promise.wait.positive? })
        values = Array.new(20) { |number| @client.async.get("key#{number}") }
        assert_equal [*0...20], values.reverse.map(&:wait).reverse
        assert_equal 3, @client.async.fetch("made") { 3 }.wait
        assert_equal({ "key1" => 1 }, @client.async.get_multi("key1", "none").wait)
      end
    end

    define_method(:"test_a_promise_of_#{home}_has_the_error") do
      within.call do
        @client.set("text", "text")
        promise = @client.async.incr("text")
        assert_raises(Gyre::Memcached::CommandError) { promise.wait }
        assert_predicate promise, :rejected?
      end
    end

    define_method(:"test_a_quiet_block_of_#{home}_waits_for_all_at_its_end") do
      within.call do
        @client.quiet { 200.times { |number| assert_nil @client.set("key#{number}", number) } }
        assert_equal 200, @client.get_multi(Array.new(200) { |number| "key#{number}" }).size
        assert_raises(Gyre::Memcached::NotPermittedInQuiet) { @client.quiet { @client.get("key1") } }
      end
    end

    define_method(:"test_a_quiet_block_of_#{home}_empties_the_server_in_its_turn") do
      within.call do
        @client.set("before", 1)
        result = @client.quiet { @client.set("too", 1) || @client.flush.tap { @client.set("after", 2) } }
        assert_equal [nil], result
        assert_equal [nil, nil, 2], %w[before too after].map { |key| @client.get(key) }
        assert_raises(Gyre::Memcached::NotPermittedInQuiet) { @client.quiet { @client.version } }
      end
    end

    # memcached takes such a key in base64, and makes a counter under it as well.
    define_method(:"test_#{home}_counts_once_in_each_way_of_calling") do
      ways = { call: ->(key) { @client.incr(key, 1, 60, 10) },
               quiet: ->(key) { @client.quiet { @client.incr(key, 1, 60, 10) } },
               batch: ->(key) { @client.pipeline { |batch| batch.incr(key, 1, 60, 10) } },
               promise: ->(key) { @client.async.incr(key, 1, 60, 10).wait } }
      within.call do
        ["counter", "zähler", "a b", "ü" * 90, "\xff"].product(ways.to_a) do |key, (way, count)|
          @client.set(key, "5", 60, raw: true)
          assert_equal "6", [count.call(key), @client.get(key)].last, "#{key} #{way}"
          @client.delete(key)
          assert_equal %w[10 11], Array.new(2) { [count.call(key), @client.get(key)].last }, "#{key} #{way}"
        end
      end
    end

    define_method(:"test_a_quiet_block_of_#{home}_may_last_longer_than_a_reply") do
      within.call do
        within_limits(0.3, 2, 6, what: "two commands with a pause between them") do |limit_s|
          client = Gyre::Memcached::Client.new(@server.address, socket_timeout: limit_s)
          client.get("connect")
          client.quiet { client.set("first", 1) || sleep(limit_s * 1.3) && client.set("last", 2) }
          client.pipeline { |batch| batch.get("first").tap { sleep limit_s * 1.3 }.get("last") } == [1, 2]
        rescue Gyre::TimeoutError, Gyre::Memcached::Error
          false
        ensure
          client.close
        end
      end
    end

    define_method(:"test_many_keys_of_#{home}_go_to_several_servers_at_once") do
      within.call do
        addresses = [@server.address, memcached.address, memcached.address]
        client = Gyre::Memcached::Client.new(addresses, socket_timeout: 60)
        pairs = Array.new(300) { |number| ["key #{number}", number.even? ? number : "text #{number}"] }.to_h
        assert_nil client.set_multi(pairs)
        assert_equal pairs, client.get_multi(pairs.keys, "none")
        assert(addresses.all? { |address| keys_at?(address, pairs.keys) })
        assert_equal 300, client.delete_multi(pairs.keys + ["none"])
      ensure
        client&.close
      end
    end

    define_method(:"test_groups_of_many_megabytes_of_#{home}_leave_one_after_the_other") do
      within.call do
        pairs = Array.new(3000) { |number| ["key#{number}", "#{number}:#{"x" * 3000}"] }.to_h
        @client.set_multi(pairs)
        assert_equal pairs, @client.get_multi(pairs.keys)
      end
    end
  end

  def test_the_virtual_clock_goes_on_while_commands_are_held_back
    Gyre::Testing.run do
      @client.get("connect")
      @client.quiet do
        @client.set("key", 1)
        sleep 3600
      end
      assert_equal 1, @client.get("key")
    end
  end

  def test_a_promise_of_a_thread_waits_so_long_only
    promise = @client.async.get("key")
    @server.stop
    late = @client.async.get("key")
    assert_raises(Gyre::TimeoutError) { late.wait(timeout: 0.05) }
    @server.continue
    assert_nil promise.wait
  end

  private

  def keys_at?(address, keys)
    client = Gyre::Memcached::Client.new(address, socket_timeout: 60)
    client.get_multi(keys).size.positive?
  ensure
    client&.close
  end
end
