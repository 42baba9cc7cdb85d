# frozen_string_literal: true

# Gyre::Queue between tasks, threads and both; no item and no wake-up is lost.

require "test_helper"
require "support/engines"
require "support/hand_offs"
require "support/strikes"
require "gyre"

GyreTest::Engines.test_case("QueueTest") do
  include GyreTest::HandOffs
  include GyreTest::Strikes

  def test_thread_raise_into_a_push_or_pop_leaves_no_waiter_beside_an_item
    [Gyre::Queue.new, Gyre::LimitedQueue.new(1), Gyre::PriorityQueue.new].each do |queue|
      got = []
      waiter = Thread.new { queue.each { |item| got << item } }
      pushed = 0
      strike_everywhere(->(_) { eventually { queue.empty? && queue.waiting == 1 } }) { queue.push(pushed += 1) }
      strike_everywhere(->(_) { eventually { queue.empty? && queue.waiting == 1 } }) { queue.pop(timeout: 0.0001) }
      queue.close
      waiter.join
      assert_equal got.uniq, got
    end
  end

  def test_items_come_out_in_the_order_in_which_they_went_in
    queue = Gyre::Queue.new
    queue.push(1) << 2
    queue.enqueue(3)
    assert_equal 3, queue.size
    assert_equal [1, 2, 3], [queue.pop, queue.dequeue, queue.pop]
    assert_empty queue
  end

  def test_it_can_begin_with_items
    assert_equal [1, 2], Gyre::Queue.new([1, 2]).then { |queue| [queue.pop, queue.pop] }
  end

  def test_pop_waits_for_an_item_while_others_run
    Gyre.run do |task|
      queue = Gyre::Queue.new
      popping = task.async { queue.pop }
      assert_equal 1, queue.waiting
      task.async { sleep(0.01) && queue.push(:item) }
      assert_equal :item, popping.wait
    end
  end

  def test_pop_gives_up_when_the_time_is_over
    queue = Gyre::Queue.new
    Gyre.run do
      took = duration_s { assert_nil queue.pop(timeout: 0.02) }
      assert_operator took, :>=, 0.019
      assert_nil queue.pop(timeout: 0)
      queue.push(:item)
      assert_equal :item, queue.pop(timeout: 0)
    end
    assert_equal 0, queue.waiting
    assert_nil Thread.new { queue.pop(timeout: 0.01) }.value
  end

  def test_close_lets_the_rest_be_taken_and_ends_pushing
    queue = Gyre::Queue.new([1])
    assert_same queue, queue.close
    assert_predicate queue, :closed?
    assert_raises(ClosedQueueError) { queue.push(2) }
    assert_equal [1, nil, nil], [queue.pop, queue.pop, queue.pop(timeout: 5)]
  end

  def test_close_wakes_every_waiter
    queue = Gyre::Queue.new
    Gyre.run do |task|
      waiting = Array.new(3) { task.async { queue.pop } }
      thread = Thread.new { queue.pop }
      sleep 0.01
      queue.close
      assert_equal [nil, nil, nil, nil], [*waiting.map(&:wait), thread.value]
    end
  end

  def test_each_takes_items_until_it_is_closed_and_empty
    queue = Gyre::Queue.new
    taken = []
    Gyre.run do |task|
      task.async { queue.each { |item| taken << item } }
      [1, nil, 2].each { |item| queue.push(item) && sleep(0.001) }
      queue.close
    end
    assert_equal [1, nil, 2], taken
    assert_equal [1, 2], Gyre::Queue.new([1, 2]).close.each.to_a
    assert_equal [2, 4], (Gyre::Queue.new([1, 2]).close.map { |item| item * 2 })
  end

  def test_a_closed_queue_error_inside_each_comes_through
    closed = Gyre::Queue.new.close
    assert_raises(ClosedQueueError) { Gyre::Queue.new([1]).each { |item| closed.push(item) } }
  end

  def test_a_thread_feeds_a_task
    queue = Gyre::Queue.new
    Gyre.run do |task|
      thread = Thread.new { 1_000.times { |index| queue.push(index) } && queue.close }
      assert_equal (0...1_000).to_a, task.async { queue.each.to_a }.wait
      thread.join
    end
  end

  def test_a_task_feeds_a_thread
    queue = Gyre::Queue.new
    thread = Thread.new { queue.each.to_a }
    Gyre.run { 100.times { |index| queue.push(index) && sleep(0) } && queue.close }
    assert_equal (0...100).to_a, thread.value
  end

  def test_a_signal_handler_may_push
    code = <<~RUBY
      require "gyre"
      queue = Gyre::Queue.new
      trap("USR1") { queue.push(:signal) }
      Gyre.run do |task|
        task.async { sleep 0.05; Process.kill(:USR1, Process.pid) }
        puts queue.pop(timeout: 50)
      end
    RUBY
    run = ruby("-e", code, env: { "GYRE_BACKEND" => backend })
    assert_equal ["signal\n", ""], [run.out, run.err]
  end

  def test_an_item_whose_receiver_is_stopped_goes_to_the_next
    queue = Gyre::Queue.new
    taken = []
    Gyre.run do |task|
      first = task.async { taken << [:first, queue.pop] }
      task.async { taken << [:second, queue.pop(timeout: 60)] }
      queue.push(:item)
      first.stop
      first.wait
      queue.push(:another) if first.status == :completed # it had the item before it was stopped
    end
    assert_includes taken, [:second, taken.size == 1 ? :item : :another]
  end

  def test_no_hand_off_is_lost_between_threads_and_tasks
    assert_nothing_is_lost(Gyre::Queue.new, Gyre::Queue.new, count: 100_000, tasks: 4)
  end

  def test_ping_pong_between_a_thread_and_a_task_loses_nothing
    there, back = Array.new(2) { Gyre::Queue.new }
    thread = Thread.new { there.each { |item| back.push(item) } }
    Gyre.run do
      5_000.times do |index|
        there.push(index)
        assert_equal index, back.pop(timeout: 60)
      end
      there.close
    end
    thread.join
  end

  def test_timeouts_and_stops_among_pushes_lose_nothing
    queue = Gyre::Queue.new
    count = 2_000
    taken = []
    Gyre.run do |task|
      thread = Thread.new { count.times { |index| queue.push(index) && (sleep(0.0001) if (index % 10).zero?) } }
      impatient = Array.new(5) do
        task.async(transient: true) { (item = queue.pop(timeout: 0.0002)) && taken << item while true }
      end
      task.async(transient: true) do
        while true
          victim = task.async(transient: true) { taken << queue.pop }
          sleep 0.0003
          victim.stop
        end
      end
      eventually(what: "the last item") { taken.size == count }
      thread.join
      impatient.each(&:stop)
    end
    assert_equal (0...count).to_a, taken.sort
  end

  def test_async_starts_a_task_for_each_item
    seen = []
    Gyre.run do |task|
      queue = Gyre::Queue.new.enqueue(1, nil, 3)
      queue.close
      assert_same(queue, queue.async { |item, child| seen << [item, child.parent.equal?(task)] && sleep(0.001) })
      assert_equal 3, task.children.size
      assert_raises(ArgumentError) { queue.async }
    end
    assert_equal [[1, true], [nil, true], [3, true]], seen
  end

  def test_async_goes_no_faster_than_its_parent_lets_it
    Gyre.run do |task|
      semaphore = Gyre::Semaphore.new(2)
      queue = Gyre::Queue.new((1..6).to_a)
      queue.close
      most = 0
      queue.async(parent: semaphore) { (most = [most, semaphore.count].max) && sleep(0.001) }
      task.wait_all
      assert_equal 2, most
    end
  end

  def test_inspect_shows_what_there_is
    assert_match(/Queue 2 in it, 0 waiting/, Gyre::Queue.new([1, 2]).inspect)
    assert_match(/closed, 0 in it/, Gyre::Queue.new.close.inspect)
  end
end
