# frozen_string_literal: true

# Gyre::Barrier: tasks that are waited for, or stopped, together.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("BarrierTest") do
  def test_wait_waits_for_all
    ended = []
    Gyre.run do
      barrier = Gyre::Barrier.new
      3.times { |index| barrier.async { sleep(0.005) && ended << index } }
      assert_equal 3, barrier.size
      assert_same barrier, barrier.wait
      assert_equal [0, 1, 2], ended
      assert_empty barrier
    end
  end

  def test_wait_gives_the_tasks_in_the_order_in_which_they_end
    Gyre.run do
      barrier = Gyre::Barrier.new
      gates = Array.new(3) { Gyre::Queue.new }
      gates.each { |gate| barrier.async { gate.pop } }
      [2, 0, 1].each { |index| gates[index].push(index) && sleep(0.001) }
      order = []
      barrier.wait { |task| order << task.wait }
      assert_equal [2, 0, 1], order
    end
  end

  def test_the_first_answer_is_enough
    Gyre.run do
      barrier = Gyre::Barrier.new
      [100, 0.01].each { |seconds| barrier.async { sleep(seconds) && seconds } }
      first = barrier.wait { |task| break task.wait }
      assert_equal 0.01, first
      assert_equal 1, barrier.size
      barrier.stop
    end
  end

  def test_without_a_block_the_first_failure_is_raised
    Gyre.run do
      barrier = Gyre::Barrier.new
      barrier.async { sleep }
      barrier.async { sleep(0.01) && raise(KeyError, "early") }
      assert_equal("early", assert_raises(KeyError) { barrier.wait }.message)
      barrier.stop
      barrier.wait
    end
  end

  def test_stop_stops_them_all
    Gyre.run do
      barrier = Gyre::Barrier.new
      tasks = Array.new(3) { barrier.async { sleep } }
      assert_same barrier, barrier.stop
      barrier.wait
      assert_equal(%i[stopped stopped stopped], tasks.map(&:status))
      assert_empty barrier
    end
  end

  def test_one_of_them_may_stop_them_all
    Gyre.run do
      barrier = Gyre::Barrier.new
      tasks = [barrier.async { sleep(0.001) && barrier.stop }, barrier.async { sleep }]
      barrier.wait
      assert_equal(%i[stopped stopped], tasks.map(&:status))
    end
  end

  def test_tasks_that_are_added_while_waiting_are_waited_for
    ended = []
    Gyre.run do
      barrier = Gyre::Barrier.new
      barrier.async { sleep(0.001) && barrier.async { sleep(0.01) && ended << :later } }
      barrier.wait
      assert_equal [:later], ended
    end
  end

  def test_a_parent_may_start_the_tasks
    Gyre.run do |task|
      group = task.async(transient: true) { sleep }
      barrier = Gyre::Barrier.new(parent: group)
      child = barrier.async("one", &:parent)
      assert_equal "one", child.name
      assert_same group, child.wait
      barrier.wait
    end
  end

  def test_a_semaphore_as_a_parent_limits_how_many_run
    now = most = 0
    Gyre.run do
      barrier = Gyre::Barrier.new(parent: Gyre::Semaphore.new(2))
      5.times do
        barrier.async do
          most = [most, now += 1].max
          sleep 0.002
          now -= 1
        end
      end
      barrier.wait
    end
    assert_equal 2, most
  end

  def test_an_empty_one_does_not_wait
    Gyre.run { Gyre::Barrier.new.wait }
  end

  def test_a_task_needs_a_block
    Gyre.run { assert_raises(ArgumentError) { Gyre::Barrier.new.async } }
  end
end
