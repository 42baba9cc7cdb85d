# frozen_string_literal: true

# Rails' :mem_cache_store on Gyre's client, in the releases of Active Support that the bundles of
# the two Rubies have (7.2 and 8.1). The dalli gem is not there.

require "test_helper"
require "support/memcached_server"
require "gyre/memcached/dalli"
require "active_support"
require "active_support/core_ext/object/blank"
require "active_support/cache"
require "active_support/isolated_execution_state" # of two fibers that autoload a constant Ruby 3.1 refuses one
require "active_support/notifications"

class MemcachedRailsCacheTest < Minitest::Test
  Post = Struct.new(:title, :tags)

  def setup
    @memcached = GyreTest::MemcachedServer.new(need_program("memcached"))
    @caches = []
    @cache = store
  end

  def teardown
    @caches&.each { |cache| clients(cache).each(&:close) }
    @memcached&.close
  end

  def test_its_client_is_gyres
    clients(@cache).each { |client| assert_kind_of Gyre::Memcached::Client, client }
    refute_includes Gem.loaded_specs, "dalli"
    assert_equal false, require("dalli")
  end

  def test_objects_strings_and_nil
    [1, nil, "text", "ü", "\xff".b, Post.new("a", %w[b c]), { a: [1.5, nil] }, "x" * 50_000].each do |value|
      assert_equal true, @cache.write("key", value)
      back = @cache.read("key")
      value.nil? ? assert_nil(back) : assert_equal(value, back)
      assert @cache.exist?("key")
    end
    assert_nil @cache.read("none")
    assert_equal true, @cache.delete("key")
    assert_equal false, @cache.delete("key")
  end

  def test_fetch
    assert_equal 1, @cache.fetch("key", expires_in: 60) { 1 }
    assert_equal 1, @cache.fetch("key") { flunk("it is there") }
    assert_equal 2, @cache.fetch("key", force: true) { 2 }
    assert_nil @cache.fetch("nil") { nil }
    assert_nil(@cache.fetch("nil") { flunk("it is there") })
    assert_equal 3, @cache.fetch("skipped", skip_nil: true) { 3 }
    assert_equal 9, @cache.fetch("race", race_condition_ttl: 5, expires_in: 60) { 9 }
  end

  def test_many
    assert @cache.write_multi({ "a" => 1, "b" => [2], "ключ и пробел" => 3 })
    assert_equal({ "a" => 1, "b" => [2], "ключ и пробел" => 3 }, @cache.read_multi("a", "b", "ключ и пробел", "none"))
    assert_equal({ "a" => 1, "none" => "none!" }, @cache.fetch_multi("a", "none") { |key| "#{key}!" })
    @cache.delete_multi(%w[a b])
    assert_equal({ "none" => "none!" }, @cache.read_multi("a", "b", "none"))
  end

  def test_counters
    assert_equal 1, @cache.increment("hits")
    assert_equal 6, @cache.increment("hits", 5, expires_in: 60)
    assert_equal 4, @cache.decrement("hits", 2)
    assert_equal 0, @cache.decrement("none")
    @cache.write("raw", 5, raw: true)
    assert_equal 6, @cache.increment("raw")
    assert_equal "6", @cache.read("raw", raw: true).strip
  end

  def test_unless_exist_and_expiry
    assert_equal true, @cache.write("key", 1, unless_exist: true)
    assert_equal false, @cache.write("key", 2, unless_exist: true)
    assert_equal 1, @cache.read("key")
    @cache.write("long", 1, expires_in: 40 * 86_400)
    assert_equal 1, @cache.read("long")
  end

  def test_namespaces_versions_and_long_keys
    spaced = store(namespace: "app")
    spaced.write("key", 1)
    assert_equal [1, nil], [spaced.read("key"), @cache.read("key")]
    @cache.write("versioned", 1, version: 1)
    assert_nil @cache.read("versioned", version: 2)
    long = "k" * 400
    @cache.write(long, 1)
    assert_equal({ long => 1 }, @cache.read_multi(long))
  end

  def test_clear_and_stats
    @cache.write("key", 1)
    @cache.clear
    assert_nil @cache.read("key")
    assert_equal [@memcached.address], @cache.stats.keys
  end

  def test_a_value_over_the_limit_and_a_server_that_is_gone_are_misses
    @cache.logger = Logger.new(StringIO.new)
    large = store(value_max_bytes: 1_000)
    large.logger = @cache.logger
    refute large.write("key", Random.bytes(5_000))
    @cache.write("key", 1)
    @memcached.kill
    assert_nil @cache.read("key")
    refute @cache.write("key", 1)
    assert_equal({}, @cache.read_multi("key"))
    assert_equal 5, @cache.fetch("key") { 5 }
    assert_nil @cache.increment("hits")
  end

  def test_with_a_pool_of_clients_and_without_one
    [{ pool: { size: 3, timeout: 60 } }, { pool: false }].each do |options|
      cache = store(**options)
      threads = Array.new(8) do |number|
        Thread.new { 20.times { |round| cache.write("#{number}:#{round}", round) && cache.read("#{number}:#{round}") } }
      end
      threads.each(&:join)
      assert_equal 19, cache.read("7:19")
    end
  end

  def test_requests_in_fibers_share_its_connection
    Gyre.run do |task|
      Array.new(50) { |number| task.async { @cache.write("fiber#{number}", number) } }.each(&:wait)
      assert_equal 50, @cache.read_multi(*Array.new(50) { |number| "fiber#{number}" }).size
    end
  end

  private

  def store(**options)
    ActiveSupport::Cache.lookup_store(:mem_cache_store, @memcached.address, options).tap { |cache| @caches << cache }
  end

  # All that a pool has, or the one without a pool.
  def clients(cache)
    data = cache.instance_variable_get(:@data)
    return [data] unless data.is_a?(ConnectionPool)

    found = []
    data.reload { |client| found << client }
    found
  end
end
