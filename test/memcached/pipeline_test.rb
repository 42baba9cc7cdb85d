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
    @client = Gyre::Memcached::Client.new(@server.address)
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
        error = assert_raises(Gyre::Memcached::ServerError) do
          @client.pipeline { |batch| batch.incr("text").set("behind", 1) }
        end
        assert_includes error.message, "incr at memcached #{@server.address}"
        assert_equal 1, @client.get("behind")
      end
    end

    define_method(:"test_a_batch_of_#{home}_may_be_larger_than_the_queue") do
      within.call do
        count = 70_000
        assert_equal count, @client.pipeline { |batch| count.times { batch.get("nothing") } }.size
        assert_equal 0, @client.instance_variable_get(:@single).connections.sum(&:pending)
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
        assert_raises(Gyre::Memcached::ServerError) { promise.wait }
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

    define_method(:"test_a_quiet_block_of_#{home}_may_last_longer_than_a_reply") do
      client = Gyre::Memcached::Client.new(@server.address, socket_timeout: 0.3)
      within.call do
        client.get("connect")
        client.quiet do
          client.set("first", 1)
          sleep 0.4
          client.set("last", 2)
        end
        assert_equal [1, 2], client.pipeline { |batch| batch.get("first").tap { sleep 0.4 }.get("last") }
      ensure
        client.close
      end
    end

    define_method(:"test_many_keys_of_#{home}_go_to_several_servers_at_once") do
      within.call do
        addresses = [@server.address, memcached.address, memcached.address]
        client = Gyre::Memcached::Client.new(addresses)
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
    client = Gyre::Memcached::Client.new(address)
    client.get_multi(keys).size.positive?
  ensure
    client&.close
  end
end
