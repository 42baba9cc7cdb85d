# frozen_string_literal: true

# One of many callers leaves the memcached client's pipeline, at each point of its command's way:
# before it is sent, while the server has it, while its reply is half there. Its reply is read and
# dropped: every other call gets its own value, on the same connection.

require "test_helper"
require "memcached/clients"

class MemcachedCancellationTest < Minitest::Test
  include MemcachedClients

  COUNT = 100
  KEYS = Array.new(COUNT) { |index| format("key-%03d", index) }
  # How many replies the others have when one leaves; and of the next one, how many bytes.
  POINTS = [[0, 0], [0, 7], [1, 0], [49, 0], [49, 1], [50, 3], [50, 20], [99, 10]].freeze

  class Left < StandardError; end

  def setup
    super
    @open = Thread::Queue.new
    @late = "".b
  end

  def teardown
    @open.close
    super
  end

  POINTS.each do |replies, bytes|
    [0, 1, 49, 50, 99].each do |leaver|
      define_method(:"test_fiber_#{leaver}_leaves_after_#{replies}_replies_and_#{bytes}_bytes") do
        check(:fibers, COUNT, leaver, replies, bytes, &:stop)
      end
    end
  end

  # The first thread reads for all.
  [[0, 0], [1, 5], [5, 0], [9, 10]].product([0, 1, 5, 9]) do |(replies, bytes), leaver|
    define_method(:"test_thread_#{leaver}_is_killed_after_#{replies}_replies_and_#{bytes}_bytes") do
      check(:threads, 10, leaver, replies, bytes) { |thread| thread.kill.join }
    end
  end

  def test_an_exception_leaves_a_thread
    check(:threads, 10, 0, 3, 4) { |thread| thread.raise(Left) && assert_raises(Left) { thread.value } }
  end

  def test_fibers_that_leave_before_anything_is_sent
    server = scripted(keys: KEYS)
    client = client(server.address)
    with_jobs(:fibers) do
      client.get(KEYS[0]) # connected
      started = KEYS.map { |key| [key, job { client.get(key) }] }
      left, stayed = started.partition.with_index { |_, index| index % 3 == 1 }
      left.each { |_, job| job.stop }
      stayed.each { |key, job| assert_equal value_of(key), value(job) }
      assert_equal value_of(KEYS[1]), client.get(KEYS[1])
    end
    assert_equal 1, server.connections_count
  end

  def test_fibers_that_leave_before_the_connection_is_there
    server = scripted(keys: KEYS)
    client = client(server.address)
    with_jobs(:fibers) do
      started = KEYS.map { |key| [key, job { client.get(key) }] }
      left, stayed = started.partition.with_index { |_, index| index % 7 == 0 }
      left.each { |_, job| job.stop }
      stayed.each { |key, job| assert_equal value_of(key), value(job) }
    end
  end

  def test_all_leave_and_the_connection_stays_in_step
    server = gated
    client = client(server.address)
    with_jobs(:fibers) do
      connect(client)
      left = KEYS.map { |key| job { client.get(key) } }
      eventually { server.commands.size > 1 }
      left.each(&:stop)
      last = job { client.get("key-007") }
      (COUNT + 1).times { @open << :reply }
      assert_equal value_of("key-007"), value(last)
    end
    assert_equal 1, server.connections_count
  end

  def test_a_deadline_of_one_call_concerns_no_other
    server = gated
    client = client(server.address)
    with_jobs(:fibers) do
      connect(client)
      others = KEYS.first(20).map { |key| [key, job { client.get(key) }] }
      late = job { outcome { Gyre.with_deadline(0.01) { client.get("key-050") } } }
      assert_kind_of Gyre::TimeoutError, value(late)
      more = KEYS.last(20).map { |key| [key, job { client.get(key) }] }
      41.times { @open << :reply }
      (others + more).each { |key, job| assert_equal value_of(key), value(job) }
    end
    assert_equal 1, server.connections_count
  end

  def test_many_keys_at_once_are_left_in_the_middle
    server = gated
    client = client(server.address)
    with_jobs(:fibers) do
      connect(client)
      left = job { client.get_multi(*KEYS) }
      other = job { client.get("key-033") }
      stored = job { client.set_multi(KEYS.first(10).to_h { |key| [key, value_of(key)] }) }
      eventually { server.commands.size > 1 }
      5.times { @open << :reply }
      left.stop
      stored.stop
      500.times { @open << :reply }
      assert_equal value_of("key-033"), value(other)
      KEYS.each { |key| assert_equal value_of(key), client.get(key) }
    end
    assert_equal 1, server.connections_count
  end

  private

  # Each reply waits for a word: :reply, or how many bytes of it come now, and the rest with the
  # next one.
  def gated
    scripted(keys: KEYS) do |command, sound, _|
      next sound if @open.closed?

      send_some(sound, command.key == "connect" ? :reply : @open.pop)
    end
  end

  def send_some(sound, word)
    all = @late + sound.b
    length = word.is_a?(Integer) ? [@late.bytesize + word, all.bytesize - 1].min : all.bytesize
    @late = all.byteslice(length..)
    all.byteslice(0, length)
  end

  def connect(client)
    assert_nil client.get("connect")
  end

  def check(jobs, count, leaver, replies, bytes)
    server = gated
    client = client(server.address)
    with_jobs(jobs) do
      connect(client)
      started = KEYS.first(count).map { |key| [key, job { client.get(key) }.tap { |job| parked(job) if job.is_a?(Thread) }] } # in order
      eventually { server.commands.size > 1 }
      parked(*started.map(&:last))
      replies.times { @open << :reply }
      @open << bytes if bytes.positive?
      others = started.each_with_index.reject { |_, index| index == leaver }.map(&:first)
      others.first([replies, leaver].min).each { |key, job| assert_equal value_of(key), value(job) }
      yield started[leaver].last
      next_one = job { client.get(KEYS[1]) } # the rest of what is half there comes with it
      (count + 10).times { @open << :reply }
      others.each { |key, job| assert_equal value_of(key), value(job) }
      assert_equal value_of(KEYS[1]), value(next_one)
      KEYS.first(3).each { |key| assert_equal(value_of(key), client.get(key)) }
    end
    assert_equal 1, server.connections_count
  end
end
