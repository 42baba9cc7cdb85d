# frozen_string_literal: true

# The programs examples/memcached_*.rb, run as people do, with a memcached of their own.

require "test_helper"
require "support/engines"
require "support/memcached_server"

GyreTest::Engines.test_case("MemcachedExamplesTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  include GyreTest::MemcachedServers

  def test_the_parts_of_a_page_are_made_at_once_and_then_found
    out = example("memcached_page")
    made = Float(out[/nothing is there, all are made at once: 50 parts in (\d+) ms/, 1])
    assert_operator made, :<, 50 * 100, "one after the other would take as long"
    assert_match(/^all are there: 50 parts in \d+ ms\nthe same page: true\n\z/, out)
  end

  def test_a_program_for_dalli_runs
    assert_equal <<~TEXT, example("memcached_from_dalli")
      Tumtum Trading: 23.5
      visits: 100
      one=1 two=2
      one: 11
      left: 0
    TEXT
  end

  private

  def example(name)
    run = ruby(File.expand_path("../../examples/#{name}.rb", __dir__), env: { "GYRE_BACKEND" => backend, "MEMCACHE_SERVERS" => memcached.address })
    assert_predicate run.status, :success?, run.err
    assert_equal "", run.err
    run.out
  end
end
