# frozen_string_literal: true

# The memcached client with three of Debian's memcached, one of which is killed, stopped, started
# again: with failover and without, over TCP and TLS, in fibers and in threads.

require "test_helper"
require "logger"
require "stringio"
require "memcached/clients"

class MemcachedSeveralServersTest < Minitest::Test
  include MemcachedClients

  KEYS = Array.new(60) { |index| "key-#{index}" }

  def setup
    super
    @servers = Array.new(3) { memcached }
  end

  JOBS.each do |jobs|
    define_method(:"test_#{jobs}_without_failover_only_the_keys_of_a_killed_server_fail") do
      client = started(failover: false)
      with_jobs(jobs) do
        store(client)
        theirs = keys_of(@servers[1])
        @servers[1].kill
        each_key(client) do |key, result|
          theirs.include?(key) ? assert_lost(result, @servers[1]) : assert_equal(value_of(key), result)
        end
        assert_equal (KEYS - theirs).to_h { |key| [key, value_of(key)] }, found(client)
      end
    end

    define_method(:"test_#{jobs}_with_failover_the_keys_of_a_killed_server_go_to_others") do
      client = started
      with_jobs(jobs) do
        store(client)
        theirs = keys_of(@servers[1])
        @servers[1].kill
        each_key(client) do |key, result|
          assert_own(key, result, @servers[1]) unless theirs.include?(key) && result.nil?
        end
        store(client)
        each_key(client) { |key, result| assert_equal value_of(key), result }
        assert_equal KEYS.size, client.get_multi(*KEYS).size
      end
      assert_equal KEYS.size, [@servers[0], @servers[2]].sum { |server| server.stats["curr_items"].to_i }
    end

    define_method(:"test_#{jobs}_a_server_that_is_back_on_its_port_is_used_again") do
      client = started(down_retry_delay: 0)
      with_jobs(jobs) do
        store(client)
        theirs = keys_of(@servers[1])
        @servers[1].kill
        each_key(client) { |key, result| assert_own(key, result, @servers[1]) unless result.nil? }
        @servers[1].start
        store(client)
        each_key(client) { |key, result| assert_equal value_of(key), result }
        assert_equal theirs.size, @servers[1].stats["curr_items"].to_i
      end
    end

    define_method(:"test_#{jobs}_a_stopped_server_holds_up_its_own_keys_only") do
      with_jobs(jobs) do
        store(started)
        theirs = keys_of(@servers[2])
        @servers[2].stop
        within_limits(0.3, 2, 6, what: "the values of the others") do |limit_s|
          own = KEYS - theirs
          each_key(started(failover: false, socket_timeout: limit_s)) do |key, result|
            theirs.include?(key) ? assert_lost(result, @servers[2]) : result == value_of(key) && own.delete(key)
          end
          own.empty?
        end
      end
    ensure
      @servers[2].continue
    end

    define_method(:"test_#{jobs}_with_failover_a_stopped_server_is_left_out") do
      with_jobs(jobs) do
        store(started)
        @servers[2].stop
        within_limits(0.3, 2, 6, what: "values at the others") do |limit_s|
          client = started(socket_timeout: limit_s, down_retry_delay: 3600)
          3.times { each_key(client) { |key, result| assert_own(key, result, @servers[2]) unless result.nil? } }
          store(client)
          each_key(client) { |key, result| assert_equal value_of(key), result }
        rescue Failure, Minitest::Assertion
          false # another one stood still, too
        end
      end
    ensure
      @servers[2].continue
    end

    define_method(:"test_#{jobs}_without_any_server_the_error_is_that_none_is_there") do
      client = started
      with_jobs(jobs) do
        store(client)
        @servers.each(&:kill)
        each_key(client) { |_, result| assert_kind_of Failure, result }
        assert_kind_of Gyre::Memcached::NoServerError, outcome { client.get("key-0") }
      end
    end
  end

  def test_killed_in_the_middle_of_many_calls
    client = started(failover: false)
    with_jobs(:fibers) do
      store(client)
      theirs = keys_of(@servers[0])
      victim = @servers[0]
      victim.stop # its commands are sent and not answered
      calls = KEYS.map { |key| [key, job { outcome { client.get(key) } }] }
      calls.each { |key, job| assert_equal value_of(key), value(job) unless theirs.include?(key) }
      victim.kill
      calls.each { |key, job| assert_lost(value(job), victim) if theirs.include?(key) }
    end
  end

  # Nothing is raised where get_multi leaves out a server's keys.
  def test_the_logger_is_told_of_a_server_that_is_down_and_of_its_return
    log = StringIO.new
    client = started(down_retry_delay: 0, socket_failure_delay: nil, logger: Logger.new(log))
    store(client)
    assert_empty log.string
    @servers[1].kill
    2.times { client.get_multi(*KEYS) }
    assert_match(/WARN .* memcached #{@servers[1].address} is down: .+; the next attempt is in 0 s$/, log.string)
    refute_match(/is back/, log.string)
    @servers[1].start
    store(client)
    assert_match(/INFO .* memcached #{@servers[1].address} is back$/, log.string)
  end

  def test_keys_are_spread
    client = started
    with_jobs(:threads) { store(client) }
    assert_equal KEYS.sort, @servers.flat_map { |server| keys_of(server).tap { |keys| refute_empty keys } }.sort
  end

  private

  def started(**options)
    client(@servers.map(&:address), **options)
  end

  def store(client)
    KEYS.map { |key| job { assert client.set(key, value_of(key)) } }.each { |job| value(job) }
  end

  # Asked of the server itself.
  def keys_of(server)
    KEYS.select { |key| server.call("mg #{key}\r\n").start_with?("HD") }
  end

  def each_key(client)
    calls = KEYS.map { |key| [key, job { outcome { client.get(key) } }] }
    calls.each { |key, job| yield key, value(job) }
  end

  # What get_multi finds; a server that is away has nothing.
  def found(client)
    client.get_multi(*KEYS)
  end

  def assert_lost(result, server)
    assert_kind_of Failure, result
    assert_includes result.message, server.address unless result.is_a?(Gyre::Memcached::NoServerError)
  end
end
