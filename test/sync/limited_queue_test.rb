# frozen_string_literal: true

# Gyre::LimitedQueue: a push into a full one waits.

require "test_helper"
require "support/engines"
require "support/hand_offs"
require "gyre"

GyreTest::Engines.test_case("LimitedQueueTest") do
  include GyreTest::HandOffs

  def test_the_limit_is_a_positive_number
    assert_equal 3, Gyre::LimitedQueue.new(3).limit
    [0, -1, nil, 1.5, "2"].each { |limit| assert_raises(ArgumentError) { Gyre::LimitedQueue.new(limit) } }
    assert_raises(ArgumentError) { Gyre::LimitedQueue.new(1, [1, 2]) }
  end

  def test_it_is_a_queue
    queue = Gyre::LimitedQueue.new(2, [1])
    queue << 2
    assert_predicate queue, :full?
    assert_equal 2, queue.size
    assert_equal [1, 2], [queue.pop, queue.dequeue]
    assert_nil queue.pop(timeout: 0.001)
  end

  def test_push_waits_while_it_is_full
    Gyre.run do |task|
      queue = Gyre::LimitedQueue.new(2)
      order = []
      task.async { 4.times { |index| queue.push(index) && order << :"in#{index}" } }
      assert_equal %i[in0 in1], order
      assert_equal 1, queue.waiting_to_push
      assert_equal 0, queue.pop
      sleep 0.001
      assert_equal %i[in0 in1 in2], order
      assert_equal [1, 2, 3], [queue.pop, queue.pop, queue.pop]
    end
  end

  def test_a_push_can_be_given_up
    Gyre.run do |task|
      queue = Gyre::LimitedQueue.new(1, [:first])
      assert_raises(Gyre::TimeoutError) { task.with_timeout(0.01) { queue.push(:second) } }
      assert_equal 0, queue.waiting_to_push
      assert_equal :first, queue.pop
      assert_empty queue
    end
  end

  def test_close_ends_the_waits_on_both_sides
    Gyre.run do |task|
      queue = Gyre::LimitedQueue.new(1, [1])
      pushing = task.async { assert_raises(ClosedQueueError) { queue.push(2) } }
      queue.close
      pushing.wait
      assert_equal [1, nil], [queue.pop, queue.pop]

      empty = Gyre::LimitedQueue.new(1)
      popping = task.async { empty.pop }
      empty.close
      assert_nil popping.wait
    end
  end

  def test_each_takes_items_until_it_is_closed_and_empty
    queue = Gyre::LimitedQueue.new(2)
    Gyre.run do |task|
      taking = task.async { queue.each.to_a }
      10.times { |index| queue.push(index) }
      queue.close
      assert_equal (0..9).to_a, taking.wait
    end
  end

  def test_a_place_whose_receiver_is_stopped_goes_to_the_next
    Gyre.run do |task|
      queue = Gyre::LimitedQueue.new(1, [0])
      first = task.async { queue.push(:first) }
      second = task.async { queue.push(:second) }
      queue.pop
      first.stop.wait
      queue.pop if first.status == :completed
      task.with_timeout(60) { second.wait }
    end
  end

  def test_no_hand_off_is_lost_between_threads_and_tasks
    assert_nothing_is_lost(Gyre::LimitedQueue.new(8), Gyre::LimitedQueue.new(8), count: 40_000, tasks: 3)
  end

  def test_enqueue_waits_for_each_item
    Gyre.run do |task|
      queue = Gyre::LimitedQueue.new(1)
      adding = task.async { queue.enqueue(1, 2, 3) }
      assert_equal [1, 2, 3], Array.new(3) { queue.dequeue(timeout: 60) }
      assert_same queue, adding.wait
    end
  end
end
