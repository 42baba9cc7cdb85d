# frozen_string_literal: true

# What can happen to the memcached client on its way to a server and back, over TCP, TLS and Unix
# sockets, with fibers and with threads. Whatever it is: a call returns its own value, or raises an
# error that names the server and the command; nothing hangs, and the next call works.

require "test_helper"
require "memcached/clients"

class MemcachedFaultsTest < Minitest::Test
  include MemcachedClients

  KEYS = Array.new(6) { |index| "key-#{index}" }
  BAD = "key-3"

  # From one cut to the next, in bytes; rake test:memcached cuts after each.
  STRIDES = (ENV["GYRE_MEMCACHED_EACH_BYTE"] == "1" ? { plain: 1, unix: 1, tls: 1 } : { plain: 7, unix: 7, tls: 97 }).freeze
  # What a server sends instead of one reply, and what that call gets: :own, an error class, or
  # nil: whatever assert_own allows. Where the connection has to go, :close.
  REPLIES = {
    "garbage" => ["HTTP/1.1 400 Bad Request\r\n\r\n", Gyre::Memcached::ProtocolError, :close],
    "binary garbage" => ["\x81\x00\xff\xff\r\n", Gyre::Memcached::ProtocolError, :close],
    "a line without CR" => ["EN\n\r\n", Gyre::Memcached::ProtocolError, :close],
    "a line without end" => ["STAT #{"x" * 10_000}", Gyre::Memcached::ProtocolError, :close],
    "the reply of another command" => ["MN\r\n", Gyre::Memcached::ProtocolError, :close],
    "a value without a length" => ["VA \r\nabc\r\n", Gyre::Memcached::ProtocolError, :close],
    "a length that is too small" => ["VA 3 f0\r\nabcdef\r\n", Gyre::Memcached::ProtocolError, :close],
    "a length beyond any limit" => ["VA 9999999999 f0\r\nabc\r\n", Gyre::Memcached::ProtocolError, :close],
    "flags that are no number" => ["VA 3 fx\r\nabc\r\n", Gyre::Memcached::ProtocolError, :close],
    "an end" => [:close, nil, :close],
    "a reset" => [:reset, nil, :close],
    "SERVER_ERROR" => ["SERVER_ERROR out of memory reading request\r\n", Gyre::Memcached::ServerError, nil],
    "CLIENT_ERROR" => ["CLIENT_ERROR bad data chunk\r\n", Gyre::Memcached::Error, nil],
    "ERROR" => ["ERROR\r\n", Gyre::Memcached::Error, nil]
  }.freeze

  KINDS.product(JOBS) do |kind, jobs|
    define_method(:"test_#{kind}_#{jobs}_replies_in_pieces_of_one_byte") { check_pieces(kind, jobs) }
    define_method(:"test_#{kind}_#{jobs}_cut_at_some_bytes") { check_cuts(kind, jobs, STRIDES.fetch(kind)) }
  end

  JOBS.each do |jobs|
    REPLIES.each do |name, (reply, error, closed)|
      define_method(:"test_#{jobs}_#{name.tr(" ", "_")}") { check_reply(jobs, reply, error, closed) }
    end
  end

  # Its values change while it connects.
  def test_a_value_that_changes_while_others_run_is_stored_as_it_was
    server = scripted
    client = client(server.address)
    value = +"small"
    with_jobs(:fibers) do
      call = job { client.set_multi({ "a" => value }) }
      parked(call)
      value << "x" * 5_000
      assert_nil value(call)
      assert_equal "small", client.get("a")
    end
    assert_equal 1, server.connections_count
  end

  def test_a_reply_of_endless_lines
    server = scripted { |command, sound, _| { "stats" => "STAT a b\r\n" * 70_000, "mn" => "NS\r\n" * 70_000 }.fetch(command.name, sound) }
    client = client(server.address, socket_timeout: 60, down_retry_delay: 0)
    [-> { client.stats }, -> { client.set_multi({ "a" => "b" }) }].each do |call|
      assert_includes assert_raises(Gyre::Memcached::ProtocolError, &call).message, "too many lines"
    end
  end

  private

  def check_pieces(kind, jobs)
    server = scripted(kind)
    through = relay(server, piece: 1)
    client = client(through.address, kind: kind)
    with_jobs(jobs) do
      KEYS.map { |key| job { assert client.set(key, value_of(key)) } }.each { |job| value(job) }
      jobs = KEYS.map { |key| [key, job { client.get(key) }] }
      jobs.each { |key, job| assert_equal value_of(key), value(job) }
      assert_equal KEYS.to_h { |key| [key, value_of(key)] }, client.get_multi(*KEYS)
    end
    assert_empty server.wrong
  end

  # Every byte of a plain reply stream is a place for a cut; the stride picks some of them.
  def check_cuts(kind, jobs, stride)
    server = scripted(kind, keys: KEYS)
    [0, 1].each do |direction|
      bytes = bytes_of_a_round(server, kind, jobs, direction)
      faults = %i[fin close reset]
      0.step(bytes, stride) { |after| check_cut(server, kind, jobs, cut: direction, after: after, fault: faults[after % 3]) }
    end
  end

  def bytes_of_a_round(server, kind, jobs, direction)
    through = relay(server)
    round(through, kind, jobs)
    through.proxies.sum { |proxy| proxy.directions[direction].moved }.tap { |bytes| assert_operator bytes, :>, 60, "so much goes each way" }
  ensure
    release_all_but(server)
  end

  def check_cut(server, kind, jobs, **faults)
    through = relay(server, once: true, **faults)
    round(through, kind, jobs) { |key, result| assert_own(key, result, through, "get", faults) }
  ensure
    release_all_but(server)
  end

  # Several calls at once, and then one after the other, which must succeed.
  def round(through, kind, jobs)
    client = client(through.address, kind: kind, down_retry_delay: 0, socket_failure_delay: nil)
    with_jobs(jobs) do
      jobs = KEYS.map { |key| [key, job { outcome { client.get(key) } }] }
      jobs.each { |key, job| value(job).then { |result| yield key, result if block_given? } }
      KEYS.each { |key| assert_equal value_of(key), client.get(key) } if through.proxies.size > 1
    end
  end

  def release_all_but(server)
    @scripted.delete(server)
    release_clients
    @scripted << server
    @jobs&.clear
  end

  def check_reply(jobs, reply, error, closed)
    bad = true
    server = scripted(keys: KEYS) { |command, sound, _| bad && command.key == BAD ? reply : sound }
    client = client(server.address, down_retry_delay: 0)
    with_jobs(jobs) do
      jobs = KEYS.map { |key| [key, job { outcome { client.get(key) } }] }
      jobs.each do |key, job|
        result = value(job)
        assert_own(key, result, server)
        assert_kind_of error, result if key == BAD && error
        assert_kind_of Failure, result if key == BAD
        assert_equal value_of(key), result unless closed || key == BAD
      end
      bad = false
      KEYS.each { |key| assert_equal value_of(key), client.get(key) }
    end
    assert_operator server.connections_count, closed ? :> : :==, 1
    assert_empty server.wrong
  end
end
