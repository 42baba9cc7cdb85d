# frozen_string_literal: true

# What a memcached may reply that leaves the client out of step if it is not careful: a reply too
# many, refused values, silence. The call it belongs to fails, no other one gets its reply.

require "test_helper"
require "memcached/clients"

class MemcachedRepliesTest < Minitest::Test
  include MemcachedClients

  KEYS = Array.new(5) { |index| "key-#{index}" }

  # Its thread stands still.
  def compute(seconds) = Fiber.new(blocking: true) { sleep seconds }.resume

  def test_the_time_for_a_reply_begins_when_its_command_has_left
    server = memcached
    within_limits(0.4, 2, 5, what: "replies in time for a loop that computes") do |limit_s|
      client = client(server.address, socket_timeout: limit_s)
      with_jobs(:fibers) do
        client.set("counter", "0", 60, raw: true)
        calls = Array.new(3) { job { client.incr("counter") } }
        compute(limit_s * 1.5)
        assert_equal [1, 2, 3], calls.map { |call| value(call) }
        given_up, call = Array.new(2) { job { client.incr("counter") } }
        given_up.stop
        compute(limit_s * 1.5)
        assert_equal 5, value(call)
      end
    rescue Failure
      false # the server stood still meanwhile
    end
  end

  # A socket of this kind holds little: the last bytes of a large value leave long after the first.
  JOBS.each do |jobs|
    define_method(:"test_#{jobs}_a_value_that_the_server_takes_slowly_has_time_until_it_is_there") do
      within_limits(0.4, 2, 5, what: "a value that is taken slowly") do |limit_s|
        result, took_s = set_slowly(jobs, limit_s)
        result == 0 && took_s > limit_s * 2
      end
    end
  end

  JOBS.each do |jobs|
    # In the middle of a pipeline it could not be told from the next one's.
    define_method(:"test_#{jobs}_a_reply_too_many_ends_the_connection") do
      server = scripted(keys: KEYS) { |command, sound, number| number == 1 && command.key == KEYS.last ? "#{sound}VA 3 f0\r\nabc\r\n" : sound }
      client = client(server.address, down_retry_delay: 0)
      with_jobs(jobs) do
        3.times { KEYS.each { |key| assert_own(key, outcome { client.get(key) }, server) } }
      end
      assert_operator server.connections_count, :>, 1
    end

    define_method(:"test_#{jobs}_an_error_for_a_stored_value_is_that_call's") do
      server = scripted { |command, sound, _| command.name == "ms" && command.key == "bad" ? "SERVER_ERROR out of memory storing object\r\n" : sound }
      client = client(server.address)
      with_jobs(jobs) do
        started = [*KEYS, "bad"].shuffle(random: Random.new(5)).map { |key| [key, job { outcome { client.set(key, value_of(key)) } }] }
        started.each { |key, job| key == "bad" ? assert_server_error(value(job), server) : assert(value(job)) }
        KEYS.each { |key| assert_equal value_of(key), client.get(key) }
      end
      assert_equal 1, server.connections_count
    end

    # The value may still be on its way as commands: such a connection is not used any more.
    ["CLIENT_ERROR bad data chunk\r\n", "CLIENT_ERROR line too long\r\n", "ERROR\r\n"].each do |error|
      define_method(:"test_#{jobs}_#{error.strip.tr(" ", "_")}_for_a_stored_value_ends_the_connection") do
        server = scripted { |command, sound, _| command.name == "ms" && command.key == "bad" ? error : sound }
        client = client(server.address, down_retry_delay: 0)
        with_jobs(jobs) do
          failure = outcome { client.set("bad", "x") }
          assert_kind_of Failure, failure
          assert_includes failure.message, server.address
          assert client.set("good", value_of("good"))
          assert_equal value_of("good"), client.get("good")
        end
        assert_operator server.connections_count, :>=, 2
      end
    end

    define_method(:"test_#{jobs}_a_server_that_does_not_reply_is_given_up_after_a_time") do
      server = scripted(keys: KEYS) { |command, sound, number| number == 1 && command.key == KEYS[2] ? :silent : sound }
      limit_s = GC.stress ? 5 : 0.5 # what replies has it, too, and is slow with the collector at each allocation
      client = client(server.address, socket_timeout: limit_s, down_retry_delay: 0)
      with_jobs(jobs) do
        started = KEYS.map { |key| [key, job { outcome { client.get(key) } }] }
        results = started.to_h { |key, job| [key, value(job)] }
        results.each { |key, result| assert_own(key, result, server) }
        KEYS.each { |key| assert_equal value_of(key), client.get(key) }
      end
      assert_operator server.connections_count, :>, 1
    end

    define_method(:"test_#{jobs}_a_command_that_counts_is_sent_once_whatever_happens") do
      %i[close reset].each do |ending|
        server = scripted { |_, sound, number| number.odd? ? ending : sound }
        server.store("counter", "0", flags: 0)
        client = client(server.address, down_retry_delay: 0)
        results = nil
        with_jobs(jobs) do
          started = Array.new(6) { job { outcome { client.incr("counter", 1) } } }
          results = started.map { |job| value(job) }
        end
        counted = server.values["counter"].to_i
        assert_operator counted, :<=, 6
        assert_operator counted, :>=, results.grep(Integer).size
        results.grep(Exception).each { |error| assert_includes error.message, server.address }
      end
    end
  end

  private

  # Returns what the call did, and for how long the server took its value.
  def set_slowly(jobs, limit_s)
    Dir.mktmpdir do |folder|
      listener = UNIXServer.new(path = File.join(folder, "socket"))
      taken = Thread.new { take_slowly(listener, limit_s / 20.0) }
      client = client(path, socket_timeout: limit_s, compress: false, value_max_bytes: 10_000_000)
      [with_jobs(jobs) { value(job { outcome { client.set("large", "x" * 5_000_000) } }) }, taken.value]
    ensure
      listener&.close
    end
  end

  def take_slowly(listener, pause_s)
    socket = listener.accept
    socket.write("VERSION 1.6.18\r\n") if socket.gets == "version\r\n" # asked before the first value
    bytes = socket.gets.to_s[/\d+/].to_i + 2
    duration_s do
      while bytes.positive? && (piece = socket.read([bytes, 100_000].min))
        bytes -= piece.bytesize
        sleep pause_s
      end
      socket.write("HD\r\n")
    end
  rescue SystemCallError
    0 # it was given up
  ensure
    socket&.close
  end

  def assert_server_error(error, server)
    assert_kind_of Gyre::Memcached::ServerError, error
    assert_includes error.message, "out of memory storing object"
    assert_includes error.message, server.address
  end
end
