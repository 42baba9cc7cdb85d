# frozen_string_literal: true

# Gyre::Channel: messages between tasks and threads, and what becomes of them when a task is
# stopped.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("ChannelTest") do
  def test_the_capacity_is_a_number_of_zero_or_more
    assert_equal [0, 3, Float::INFINITY], [Gyre::Channel.new, Gyre::Channel.new(3), Gyre::Channel.new(Float::INFINITY)].map(&:capacity)
    [-1, nil, 1.5, "2"].each { |capacity| assert_raises(ArgumentError) { Gyre::Channel.new(capacity) } }
  end

  def test_messages_come_in_the_order_in_which_they_were_sent
    channel = Gyre::Channel.new(3)
    channel << 1 << nil
    channel.send(3)
    assert_equal 3, channel.size
    assert_equal [1, nil, 3], Array.new(3) { channel.receive }
    assert_empty channel
  end

  def test_a_send_waits_while_it_is_full
    Gyre.run do |task|
      channel = Gyre::Channel.new(2)
      sent = []
      task.async { 4.times { |index| channel.send(index) && sent << index } }
      assert_equal [0, 1], sent
      assert_equal 0, channel.receive
      sleep 0.001
      assert_equal [0, 1, 2], sent
      assert_match(/2 of 2, 0 receiving, 1 sending/, channel.inspect)
      assert_equal [1, 2, 3], Array.new(3) { channel.receive }
    end
  end

  def test_without_capacity_both_meet
    Gyre.run do |task|
      channel = Gyre::Channel.new
      sent = false
      sender = task.async { channel.send(:first) && sent = true }
      sleep 0.001
      refute sent
      assert_equal :first, channel.receive
      sender.wait
      receiver = task.async { channel.receive }
      channel.send(:second) # at once
      assert_equal :second, receiver.wait
    end
  end

  def test_waits_may_be_limited
    Gyre.run do |task|
      channel = Gyre::Channel.new
      [0.01, 0, -1].each do |timeout|
        assert_match(/nothing in the channel/, assert_raises(Gyre::TimeoutError) { channel.receive(timeout: timeout) }.message)
        assert_match(/no room/, assert_raises(Gyre::TimeoutError) { channel.send(1, timeout: timeout) }.message)
      end
      assert_match(/0 receiving, 0 sending/, channel.inspect)
      task.async { channel.send(:late) }
      assert_equal :late, channel.receive(timeout: 60)
    end
  end

  def test_closing_ends_waits_and_leaves_what_was_sent
    Gyre.run do |task|
      channel = Gyre::Channel.new(1)
      channel.send(:left)
      sending = task.async { assert_raises(Gyre::Channel::ClosedError) { channel.send(:never) } }
      assert_same channel, channel.close.close
      sending.wait
      assert_raises(Gyre::Channel::ClosedError) { channel.send(:never) }
      assert_equal [:left], channel.to_a
      assert_raises(ClosedQueueError) { channel.receive }
      assert_predicate channel, :closed?

      empty = Gyre::Channel.new
      receiving = task.async { assert_raises(Gyre::Channel::ClosedError) { empty.receive } }
      empty.close
      receiving.wait
    end
  end

  def test_closing_ends_iterations_and_loops
    Gyre.run do |task|
      channel = Gyre::Channel.new
      by_each = task.async { channel.each.to_a }
      by_loop = task.async { [].tap { |seen| loop { seen << channel.receive } } }
      4.times { |index| channel.send(index) }
      channel.close
      assert_equal [0, 1, 2, 3], (by_each.wait + by_loop.wait).sort
    end
  end

  def test_an_error_of_a_closed_channel_in_the_block_of_each_is_not_an_end
    closed = Gyre::Channel.new.close
    channel = Gyre::Channel.new(1) << 1
    assert_raises(Gyre::Channel::ClosedError) { channel.each { closed.receive } }
  end

  def test_a_message_whose_receiver_is_stopped_goes_to_the_next
    Gyre.run do |task|
      20.times do
        channel = Gyre::Channel.new
        taken = []
        first = task.async { taken << channel.receive }
        second = task.async { taken << channel.receive }
        Thread.new { channel.send(:one) }.join # from elsewhere: it is on its way when the stop comes
        first.stop.wait
        channel.send(:two) if first.completed?
        task.with_timeout(60) { second.wait }
        assert_equal first.completed? ? %i[one two] : %i[one], taken
      end
    end
  end

  def test_a_task_that_is_stopped_while_it_sends_leaves_nothing
    Gyre.run do |task|
      channel = Gyre::Channel.new
      stopped = task.async { channel.send(:never) }
      sender = task.async { channel.send(:sent) }
      stopped.stop.wait
      assert_equal :sent, channel.receive
      sender.wait
    end
  end

  def test_timeouts_and_stops_among_messages_lose_nothing
    channel = Gyre::Channel.new(2)
    count = GyreTest::LifecycleChecks::STRESS ? 100 : 3_000
    sender = Thread.new { count.times { |index| channel.send(index) } && channel.close }
    received = []
    Gyre.run do |task|
      impatient = Array.new(3) do
        task.async do
          loop do
            received << channel.receive(timeout: 0.0001)
          rescue Gyre::TimeoutError
            nil
          end
        end
      end
      until channel.closed? && channel.empty?
        victim = task.async { loop { received << channel.receive } }
        sleep 0.0005
        victim.stop.wait
      end
      impatient.each(&:wait)
    end
    sender.join
    assert_equal (0...count).to_a, received.sort
  end

  def test_nothing_is_lost_or_doubled_among_threads_and_tasks
    channel = Gyre::Channel.new(4)
    answers = Gyre::Channel.new
    count = GyreTest::LifecycleChecks::STRESS ? 400 : 8_000
    threads = Array.new(2) { |half| Thread.new { (count / 2).times { |index| channel.send((half * count / 2) + index) } } }
    echo = Thread.new { channel.each { |message| answers.send(message) } }
    seen = []
    Gyre.run do |task|
      3.times { task.async { channel.each { |message| answers.send(message) } } }
      count.times { seen << answers.receive(timeout: 60) }
      channel.close
    end
    (threads << echo).each(&:join)
    assert_equal (0...count).to_a, seen.sort
  end
end
