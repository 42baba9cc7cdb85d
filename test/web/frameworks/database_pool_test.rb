# frozen_string_literal: true

require "test_helper"
require "gyre/http/limits"
require "gyre/web/frameworks/database_pool"

class WebDatabasePoolTest < Minitest::Test
  Pool = Struct.new(:size, :db_config)
  Config = Struct.new(:name)

  # What Active Record has of these.
  class Handler
    def initialize(pools) = @pools = pools

    def connection_pool_list(role) = role == :writing ? @pools : raise("the role is #{role}")
  end

  class Log
    attr_reader :lines

    def initialize = @lines = []

    def info(text) = @lines << text
  end

  def applied(pools, limits = Gyre::HTTP::Limits.new)
    base = Class.new { define_singleton_method(:connection_handler) { Handler.new(pools) } }
    Object.const_set(:ActiveRecord, Module.new.tap { |record| record.const_set(:Base, base) })
    [Gyre::Web::DatabasePool.apply(limits, @log = Log.new).requests_limit, @log.lines]
  ensure
    Object.send(:remove_const, :ActiveRecord)
  end

  def test_the_smallest_pool_is_the_limit_and_the_log_has_it
    limit, lines = applied([Pool.new(20, Config.new("cache")), Pool.new(5, Config.new("primary"))])
    assert_equal 5, limit
    assert_equal ["5 requests run at a time, as many as Active Record's pool primary has connections; others wait. " \
                  "requests_limit sets another number"], lines
  end

  def test_unbounded_pools_and_no_pools_mean_no_limit
    assert_equal [0, []], applied([])
    assert_equal [0, []], applied([Pool.new(nil, nil)])
  end

  def test_without_active_record_nothing_changes
    limits = Gyre::HTTP::Limits.new
    assert_same limits, Gyre::Web::DatabasePool.apply(limits, nil)
  end
end
