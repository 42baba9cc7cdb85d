# frozen_string_literal: true

# Gyre.select: exactly one case is done, none is starved, and what was not chosen stays as it is.

require "test_helper"
require "support/engines"
require "support/strikes"
require "gyre"

GyreTest::Engines.test_case("SelectionTest") do
  include GyreTest::Strikes

  def test_thread_raise_leaves_no_case_and_no_lock_behind
    channels = Array.new(2) { Gyre::Channel.new }
    check = ->(place) { channels.each { |channel| assert_match(/ 0 receiving, 0 sending/, channel.inspect, "struck at place #{place}") } }
    strike_everywhere(check) do
      Gyre.select(timeout: 0.0001) { |on| channels.each { |channel| on.receive(channel).send(channel, 1) } }
    end
    assert_equal(:free, Thread.new { Gyre.select { |on| channels.each { |channel| on.receive(channel) }.then { on.default { :free } } } }.value)
  end

  def test_it_does_what_can_be_done_at_once
    full = Gyre::Channel.new(1) << :message
    value = Gyre.select do |on|
      on.receive(Gyre::Channel.new) { flunk }
      on.receive(full) { |message| [:received, message] }
      on.timer(60) { flunk }
    end
    assert_equal %i[received message], value
    assert_equal(:other, Gyre.select { |on| on.receive(Gyre::Channel.new(1) << :other) })
  end

  def test_it_waits_for_the_first_and_leaves_the_others
    Gyre.run do |task|
      first, second, third = Array.new(3) { Gyre::Channel.new }
      task.async { second.send(:message) }
      selecting = task.async do
        Gyre.select do |on|
          on.receive(first) { flunk }
          on.receive(second) { |message| message }
          on.send(third, :unsent) { flunk }
        end
      end
      assert_equal :message, selecting.wait
      [first, second, third].each { |channel| assert_match(/0 receiving, 0 sending/, channel.inspect) }
    end
  end

  def test_a_send_is_a_case
    Gyre.run do |task|
      channel = Gyre::Channel.new
      receiver = task.async { sleep(0.001) && channel.receive }
      assert_equal(:sent, Gyre.select { |on| on.send(channel, :message) { :sent } })
      assert_equal :message, receiver.wait
      buffered = Gyre::Channel.new(1)
      Gyre.select { |on| on.send(buffered, 1) }
      assert_equal 1, buffered.receive
    end
  end

  def test_on_an_io_it_is_refused_in_a_blocking_fiber
    reader, writer = IO.pipe
    Thread.new do
      Fiber.set_scheduler(Gyre::Scheduler.new)
      error = assert_raises(Gyre::Error) { Gyre.select(timeout: 0.1) { |on| on.readable(reader) } }
      assert_match(/wrap it in Gyre.run/, error.message)
    end.join
  ensure
    [reader, writer].each(&:close)
  end

  def test_an_invalid_channel_is_refused
    [->(on) { on.receive(Gyre::Queue.new) }, ->(on) { on.send(nil, 1) }].each do |cases|
      assert_match(/needs a Gyre::Channel, not /, assert_raises(ArgumentError) { Gyre.select(&cases) }.message)
    end
  end

  def test_two_selections_meet
    Gyre.run do |task|
      there, back = Array.new(2) { Gyre::Channel.new }
      other = task.async { Gyre.select { |on| on.receive(there) { |message| [:got, message] } && on.send(back, 1) { :sent } } }
      mine = Gyre.select { |on| on.send(there, 2) { :sent } && on.receive(back) { |message| [:got, message] } }
      assert_includes [[[:got, 2], :sent], [:sent, [:got, 1]]], [other.wait, mine]
    end
  end

  def test_a_selection_does_not_meet_itself
    channel = Gyre::Channel.new
    Gyre.run do
      value = Gyre.select(timeout: 0.01) { |on| on.send(channel, 1) { flunk } && on.receive(channel) { flunk } }
      assert_nil value
    end
  end

  def test_the_earliest_timer_counts
    Gyre.run do
      assert_equal(:early, Gyre.select { |on| on.timer(5) { flunk } && on.timer(0.01) { :early } })
      assert_nil(Gyre.select(timeout: 0.01) { |on| on.timer(5) { flunk } })
      assert_equal(:over, Gyre.select { |on| on.timer(-1) { :over } })
      assert_raises(ArgumentError) { Gyre.select { |on| on.timer("soon") } }
      assert_raises(ArgumentError) { Gyre.select { nil } }
    end
  end

  def test_with_a_default_it_never_waits
    channel = Gyre::Channel.new
    assert_equal(:nothing, Gyre.select { |on| on.receive(channel) { flunk } && on.default { :nothing } })
    assert_nil(Gyre.select { |on| on.send(channel, 1).default })
    assert_match(/0 receiving, 0 sending/, channel.inspect)
  end

  def test_an_io_becomes_readable_or_writable
    reader, writer = IO.pipe
    Gyre.run do |task|
      channel = Gyre::Channel.new
      task.async { sleep(0.005) && writer.write("hello") }
      seen = Gyre.select { |on| on.receive(channel) { flunk } && on.readable(reader) { |io| io.readpartial(10) } }
      assert_equal "hello", seen
      assert_same(writer, Gyre.select { |on| on.readable(reader) && on.writable(writer) })
      writer.write("one\ntwo\n")
      reader.gets # the second line is in Ruby's buffer now
      assert_equal("two\n", Gyre.select(timeout: 60) { |on| on.readable(reader, &:gets) })
    end
  ensure
    [reader, writer].each(&:close)
  end

  def test_an_io_that_is_closed_meanwhile_is_an_error
    reader, writer = IO.pipe
    Gyre.run do |task|
      selecting = task.async { assert_raises(IOError) { Gyre.select { |on| on.readable(reader) } } }
      sleep 0.001
      reader.close
      selecting.wait
      assert_raises(IOError) { Gyre.select { |on| on.readable(reader) } }
    end
  ensure
    [reader, writer].each(&:close)
  end

  def test_an_io_outside_of_a_run_is_refused
    reader, writer = IO.pipe
    channel = Gyre::Channel.new
    error = assert_raises(Gyre::Error) { Gyre.select { |on| on.readable(reader) && on.receive(channel) } }
    assert_match(/Gyre\.run/, error.message)
    assert_match(/0 receiving/, channel.inspect)
  ensure
    [reader, writer].each(&:close)
  end

  def test_a_task_ends
    Gyre.run do |task|
      slow = task.async { sleep }
      quick = task.async { sleep(0.005) && :value }
      2.times { assert_equal(:value, Gyre.select { |on| on.finished(slow) { flunk } && on.finished(quick, &:wait) }) }
      slow.stop.wait
      assert_equal(:stopped, Gyre.select { |on| on.finished(slow, &:status) })
    end
  end

  def test_a_task_of_another_thread_ends
    Gyre.run do |task|
      gate = Gyre::Queue.new
      child = task.async { gate.pop }
      thread = Thread.new { Gyre.select(timeout: 60) { |on| on.finished(child, &:wait) } }
      gate.push(:value)
      child.wait
      assert_equal :value, thread.value
    end
  end

  def test_the_exception_of_a_task_is_raised_or_reported
    _out, err = capture do
      Gyre.run do |task|
        taken = task.async("taken") { sleep(0.001) && raise("asked for") }
        assert_raises(RuntimeError) { Gyre.select { |on| on.finished(taken, &:wait) } }
        ignored = task.async("ignored") { sleep(0.001) && raise("not asked for") }
        Gyre.select { |on| on.finished(ignored) }
        lost = task.async("lost") { sleep(0.01) && raise("left") }
        Gyre.select { |on| on.finished(lost) && on.timer(0.001) }
        lost.join_until(Gyre::Clock.now + 60)
      end
    end
    assert_equal %w[ignored lost], err.scan(/unhandled in task "(\w+)"/).flatten
  end

  def test_a_closed_channel_is_ready
    closed = Gyre::Channel.new.close
    assert_raises(Gyre::Channel::ClosedError) { Gyre.select { |on| on.receive(closed) && on.receive(Gyre::Channel.new) } }
    assert_raises(Gyre::Channel::ClosedError) { Gyre.select { |on| on.send(closed, 1) } }
    Gyre.run do |task|
      channel = Gyre::Channel.new
      waiting = task.async { assert_raises(Gyre::Channel::ClosedError) { Gyre.select { |on| on.send(channel, 1) && on.timer(5) } } }
      channel.close
      waiting.wait
    end
  end

  def test_no_case_is_starved
    reader, writer = IO.pipe
    writer.write("x")
    channels = Array.new(3) { Gyre::Channel.new(Float::INFINITY) }
    counts = Hash.new(0)
    Gyre.run do |task|
      over = task.async { nil }
      500.times do
        channels.each { |channel| channel.send(:message) }
        counts[Gyre.select do |on|
          channels.each_with_index { |channel, index| on.receive(channel) { index } }
          on.readable(reader) { :io }
          on.finished(over) { :task }
          on.timer(0) { :timer }
        end] += 1
      end
    end
    assert_equal 6, counts.size
    assert_operator counts.values.min, :>, 30
  ensure
    [reader, writer].each(&:close)
  end

  def test_an_exception_of_the_block_comes_through
    assert_raises(KeyError) { Gyre.select { |on| on.timer(0) { raise KeyError } } }
  end

  def test_one_that_is_stopped_leaves_nothing
    reader, writer = IO.pipe
    Gyre.run do |task|
      channel = Gyre::Channel.new
      long = task.async { sleep }
      cases = ->(on) { on.receive(channel).send(channel, 1).readable(reader).finished(long) }
      selecting = task.async { Gyre.select(&cases) }
      sleep 0.001
      expected = /a message from a channel of 0 or room in .* or something to read from .* or the end of task/
      assert_match(expected, Gyre::Selection.new.tap(&cases).inspect)
      selecting.stop.wait
      assert_match(/0 receiving, 0 sending/, channel.inspect)
      writer.write("x")
      sleep 0.001
      long.stop
    end
  ensure
    [reader, writer].each(&:close)
  end

  def test_nothing_is_lost_or_doubled_when_selections_are_stopped
    channels = Array.new(2) { Gyre::Channel.new }
    count = GyreTest::LifecycleChecks::STRESS ? 50 : 1_000
    sender = Thread.new { (count * 2).times { |index| Gyre.select { |on| channels.each { |channel| on.send(channel, index) } } } }
    received = []
    Gyre.run do |task|
      until received.size == count * 2
        cases = ->(on) { channels.each { |channel| on.receive(channel) { |message| received << message } } }
        victims = Array.new(2) { task.async { loop { Gyre.select(timeout: 0.0003, &cases) } } }
        sleep 0.001
        victims.each(&:stop).each(&:wait)
      end
    end
    sender.join
    assert_equal (0...(count * 2)).to_a, received.sort
  end
end
