# frozen_string_literal: true

# docs/memcached.md: its programs print what the guide shows, with a memcached of their own; its
# table of options is the code's.

require "test_helper"
require "support/engines"
require "support/guide"
require "support/memcached_server"
require "gyre/memcached/options"

GyreTest::Guide.test_case("DocsMemcachedTest", "memcached.md", least: 6, backends: GyreTest::Engines::NATIVE.first(1)) do
  include GyreTest::MemcachedServers

  def environment = { "MEMCACHE_SERVERS" => memcached.address }
end

class DocsMemcachedTablesTest < Minitest::Test
  GUIDE = File.read(File.join(GyreTest::Guide::FOLDER, "memcached.md"), encoding: "UTF-8").freeze
  Options = Gyre::Memcached::Options
  # Given by memcached/dalli.rb to what it makes, not by programs.
  INNER = %i[too_large_error control_characters protocol pool_timeout silence_marshal_warning].freeze

  def test_every_option_is_in_the_table
    rows = GUIDE[/^\| option .*?^$/m]
    names = Options::NAMES - INNER
    assert_empty names.reject { |name| rows.include?("`#{name}`") }
  end
end
