# frozen_string_literal: true

# The client's calls against memcached, from fibers and from plain threads.
require "test_helper"
require "gyre/memcached"
require "support/memcached_server"

class MemcachedClientTest < Minitest::Test
  include GyreTest::MemcachedServers

  def setup
    @server = memcached
    @client = Gyre::Memcached::Client.new(@server.address)
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

  private

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
