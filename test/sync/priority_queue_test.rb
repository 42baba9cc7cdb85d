# frozen_string_literal: true

# Gyre::PriorityQueue: which waiter is served first.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("PriorityQueueTest") do
  def test_the_most_important_one_is_served_first_and_equals_in_their_order
    Gyre.run do |task|
      queue = Gyre::PriorityQueue.new
      served = []
      { low: -1, first: 0, second: 0, high: 2.5 }.each do |name, priority|
        task.async { queue.dequeue(priority: priority) && served << name }
      end
      4.times { |index| queue.enqueue(index) && sleep(0.001) }
      assert_equal %i[high first second low], served
    end
  end

  def test_it_is_a_queue
    queue = Gyre::PriorityQueue.new([1, 2])
    queue << 3
    assert_equal [1, 2, 3], [queue.pop, queue.dequeue(priority: 5), queue.pop(timeout: 60)]
    assert_nil queue.pop(timeout: 0.001, priority: 3)
    queue.enqueue(4, 5).close
    assert_equal [4, 5], queue.to_a
    assert_nil queue.pop
  end

  def test_a_waiter_that_is_stopped_leaves_the_item_to_the_next
    Gyre.run do |task|
      queue = Gyre::PriorityQueue.new
      stopped = task.async { queue.pop(priority: 1) }
      waiting = task.async { queue.pop }
      queue.push(:item)
      stopped.stop.wait
      queue.push(:another) if stopped.completed?
      assert_includes %i[item another], task.with_timeout(60) { waiting.wait }
    end
  end

  def test_closing_ends_the_waits
    Gyre.run do |task|
      queue = Gyre::PriorityQueue.new
      waiting = Array.new(3) { |index| task.async { queue.pop(priority: index) } }
      queue.close
      assert_equal [nil] * 3, waiting.map(&:wait)
    end
  end

  def test_nothing_is_lost_between_threads_and_tasks
    queue = Gyre::PriorityQueue.new
    count = 10_000
    threads = Array.new(2) { |half| Thread.new { (count / 2).times { |index| queue.push((half * count / 2) + index) } } }
    seen = Gyre::Queue.new
    take = ->(priority) { seen.push(queue.pop(priority: priority)) until queue.closed? && queue.empty? }
    popping = Thread.new { take.call(1) }
    Gyre.run do |task|
      2.times { |priority| task.async { take.call(priority) } }
      threads.each(&:join)
      queue.close
    end
    popping.join
    assert_equal (0...count).to_a, Array.new(seen.size) { seen.pop }.compact.sort
  end
end
