# frozen_string_literal: true

# Gyre::Semaphore: so many at once and no more.

require "test_helper"
require "support/engines"
require "support/strikes"
require "gyre"

GyreTest::Engines.test_case("SemaphoreTest") do
  include GyreTest::Strikes

  def test_thread_raise_costs_no_place
    semaphore = Gyre::Semaphore.new(2)
    check = ->(place) { assert_equal [0, 0, []], [semaphore.count, semaphore.waiting, semaphore.holders], "struck at place #{place}" }
    places = strike_everywhere(check) { semaphore.acquire { semaphore.acquire { nil } } }
    assert_operator places, :>, 4
  end

  def test_thread_raise_into_a_waiter_costs_no_place
    semaphore = Gyre::Semaphore.new
    strike_everywhere(->(place) { assert_equal 0, semaphore.count, "struck at place #{place}" }) do
      taken = Thread::Queue.new
      holder = Thread.new { semaphore.acquire { taken.push(true) && eventually { semaphore.waiting == 1 || @gone } } }
      begin
        @gone = false
        taken.pop
        semaphore.acquire { nil }
      ensure
        @gone = true
        Thread.handle_interrupt(Exception => :never) { holder.join }
      end
    end
  end

  def test_the_limit_is_a_positive_number
    assert_equal 1, Gyre::Semaphore.new.limit
    assert_equal 3, Gyre::Semaphore.new(3).limit
    [0, -1, nil, 1.5].each { |limit| assert_raises(ArgumentError) { Gyre::Semaphore.new(limit) } }
  end

  def test_not_more_than_the_limit_hold_it
    semaphore = Gyre::Semaphore.new(2)
    now = most = 0
    Gyre.run do |task|
      6.times do
        task.async do
          semaphore.acquire do
            most = [most, now += 1].max
            sleep 0.005
            now -= 1
          end
        end
      end
      assert_equal 2, semaphore.count
      assert_equal 4, semaphore.waiting
    end
    assert_equal 2, most
    assert_equal [0, 0], [semaphore.count, semaphore.waiting]
  end

  def test_acquire_with_a_block_gives_its_value_and_the_place_back
    semaphore = Gyre::Semaphore.new
    Gyre.run do
      assert_equal(:value, semaphore.acquire { :value })
      assert_raises(KeyError) { semaphore.acquire { raise KeyError } }
      assert_equal 0, semaphore.count
    end
  end

  def test_acquire_and_release_without_a_block
    semaphore = Gyre::Semaphore.new(1)
    assert_same semaphore, semaphore.acquire
    assert_equal 1, semaphore.count
    assert_same semaphore, semaphore.release
    assert_raises(ThreadError) { semaphore.release }
  end

  def test_places_are_given_in_the_order_of_asking
    semaphore = Gyre::Semaphore.new
    order = []
    Gyre.run do |task|
      5.times { |index| task.async { semaphore.acquire { sleep(0.001) && order << index } } }
    end
    assert_equal [0, 1, 2, 3, 4], order
  end

  def test_async_waits_for_a_place_before_it_starts_a_task
    semaphore = Gyre::Semaphore.new(2)
    Gyre.run do |task|
      gate = Gyre::Queue.new
      took = duration_s { 4.times { |index| semaphore.async("job #{index}") { index < 2 ? sleep(0.02) : gate.pop } } }
      assert_operator took, :>=, 0.019
      assert_equal ["job 2", "job 3"], task.children.map(&:name)
      assert_equal 2, semaphore.count
      gate.close
    end
    assert_equal 0, semaphore.count
  end

  def test_async_gives_the_task_and_takes_a_parent
    semaphore = Gyre::Semaphore.new(2)
    Gyre.run do |task|
      group = task.async(transient: true) { sleep }
      child = semaphore.async(parent: group, &:parent)
      assert_same group, child.wait
      assert_raises(ArgumentError) { semaphore.async }
    end
    assert_equal 0, semaphore.count
  end

  def test_a_task_that_fails_or_is_stopped_gives_its_place_back
    semaphore = Gyre::Semaphore.new(2)
    Gyre.run do
      broken = semaphore.async { raise "x" }
      assert_raises(RuntimeError) { broken.wait }
      semaphore.async { sleep }.stop.wait
      assert_equal 0, semaphore.count
    end
  end

  def test_a_parent_that_cannot_start_the_task_costs_no_place
    semaphore = Gyre::Semaphore.new
    Gyre.run do |task|
      over = task.async { nil }
      assert_raises(Gyre::Error) { semaphore.async(parent: over) { nil } }
    end
    assert_raises(RuntimeError) { semaphore.async { nil } }
    assert_equal 0, semaphore.count
  end

  def test_a_task_that_is_stopped_while_waiting_takes_no_place
    semaphore = Gyre::Semaphore.new
    Gyre.run do |task|
      semaphore.acquire
      waiting = task.async { semaphore.acquire { flunk "it had a place" } }
      waiting.stop.wait
      assert_equal 0, semaphore.waiting
      semaphore.release
      assert_equal 0, semaphore.count
    end
  end

  def test_a_place_whose_receiver_is_stopped_goes_to_the_next
    semaphore = Gyre::Semaphore.new
    Gyre.run do |task|
      semaphore.acquire
      first = task.async { semaphore.acquire { sleep } }
      second = task.async { semaphore.acquire { :mine } }
      semaphore.release
      first.stop.wait
      assert_equal(:mine, task.with_timeout(60) { second.wait })
    end
    assert_equal 0, semaphore.count
  end

  def test_threads_and_tasks_share_it
    semaphore = Gyre::Semaphore.new(3)
    lock = Thread::Mutex.new
    now = most = 0
    work = lambda do
      200.times do
        semaphore.acquire do
          lock.synchronize { most = [most, now += 1].max }
          Thread.pass
          lock.synchronize { now -= 1 }
        end
      end
    end
    threads = Array.new(2) { Thread.new(&work) }
    Gyre.run { |task| 4.times { task.async { work.call } } }
    threads.each(&:join)
    assert_operator most, :<=, 3
    assert_equal 0, semaphore.count
  end

  # Holds the semaphore's own lock in another thread for a moment.
  def contend(semaphore)
    held = Thread::Queue.new
    holder = Thread.new { semaphore.instance_variable_get(:@lock).synchronize { held.push(true) && sleep(0.05) } }
    held.pop
    holder
  end

  def test_a_place_comes_back_also_when_its_holder_is_stopped_while_the_lock_is_contended
    Gyre.run do |task|
      semaphore = Gyre::Semaphore.new(1)
      holder = nil
      child = task.async { semaphore.acquire { holder = contend(semaphore) } }
      task.yield until holder
      child.stop
      child.wait
      holder.join
      assert_equal 0, semaphore.count
    end
  end

  def test_no_place_comes_back_that_was_never_taken
    Gyre.run do |task|
      semaphore = Gyre::Semaphore.new(1).acquire
      holder = nil
      child = task.async { (holder = contend(semaphore)) && semaphore.acquire }
      task.yield until holder
      child.stop
      child.wait
      holder.join
      assert_equal [1, 0], [semaphore.count, semaphore.waiting]
    end
  end

  def test_more_places_are_given_to_the_waiters
    Gyre.run do |task|
      semaphore = Gyre::Semaphore.new(1)
      running = 0
      gate = Gyre::Condition.new
      tasks = Array.new(5) { task.async { semaphore.acquire { (running += 1) && gate.wait } } }
      assert_predicate semaphore, :blocking?
      semaphore.limit = 3
      sleep 0.001
      assert_equal [3, 3, 2, 3], [semaphore.limit, semaphore.count, semaphore.waiting, running]
      assert_match(/3 of 3 taken, 2 waiting/, semaphore.inspect)
      semaphore.limit = 9
      refute_predicate semaphore, :blocking?
      sleep 0.001
      gate.signal
      tasks.each(&:wait)
      assert_equal [0, 5], [semaphore.count, running]
      assert_raises(ArgumentError) { semaphore.limit = 0 }
    end
  end

  def test_with_fewer_places_none_is_given_out_until_enough_have_come_back
    Gyre.run do |task|
      semaphore = Gyre::Semaphore.new(2)
      2.times { semaphore.acquire }
      semaphore.limit = 1
      waiting = task.async { semaphore.acquire }
      semaphore.release
      sleep 0.001
      refute_predicate waiting, :finished?
      semaphore.release
      waiting.wait
      assert_equal 1, semaphore.count
    end
  end
end
