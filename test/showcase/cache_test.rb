# frozen_string_literal: true

# The showcase's measurement of memcached over HTTP. How it looks is in page_test.rb.

require_relative "../test_helper"
require_relative "visit"
require_relative "../support/engines"
require "socket"

GyreTest::Engines.test_case("ShowcaseCacheTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  include GyreTest::Showcase

  def test_each_way_is_measured_with_a_memcached_of_the_showcase_which_ends_with_it
    need_program "memcached"
    Dir.mktmpdir do |folder|
      with_showcase("config.ru", app: GyreTest::Showcase::LINTED, env: { "TMPDIR" => folder, "MEMCACHE_SERVERS" => nil }) do |program|
        news = lines(program, "/cache").map { |line| JSON.parse(line.text) }
        assert_equal %w[begin took took took took took done], news.map { |each| each["event"] }
        assert_equal news.first["ways"], news[1..5].map { |each| each["way"] }
        news[1..5].each { |each| assert_operator each["commands"], :>=, 12_000 }
        news[1..5].each { |each| assert_operator each["seconds"], :>=, 0.5 }

        socket, = Dir[File.join(folder, "gyre-showcase-cache*/socket")]
        UNIXSocket.open(socket, &:close)
        program.signal("KILL")
        eventually { refused?(socket) }
      end
    end
  end

  def test_a_page_without_memcached_is_told_what_to_install
    require File.join(GyreTest::Showcase::FOLDER, "lib/cache_panel")
    none = Struct.new(:address).new(nil)
    _, _, body = ::Showcase::CachePanel.new(none).call({})
    body.call(stream = StringIO.new)
    assert_equal({ "event" => "missing", "install" => "apt-get install memcached" }, JSON.parse(stream.string))
    assert_predicate stream, :closed?
  end

  private

  def refused?(path)
    UNIXSocket.open(path, &:close)
    false
  rescue SystemCallError
    true
  end
end
