# frozen_string_literal: true

# Task#wait: by several at once, by other threads, and where it can never end.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("TaskWaitingTest") do
  def test_every_waiter_gets_the_value
    values = []
    Gyre.run do |task|
      slow = task.async { sleep(0.01) && :value }
      3.times { task.async { values << slow.wait } }
    end
    assert_equal %i[value value value], values
  end

  def test_every_waiter_gets_the_same_exception
    raised = []
    _, said = capture do
      Gyre.run do |task|
        slow = task.async { sleep(0.01) && raise("broken") }
        3.times do
          task.async do
            slow.wait
          rescue RuntimeError => error
            raised << error
          end
        end
        sleep 0.03
        raised << assert_raises(RuntimeError) { slow.wait }
      end
    end
    assert_equal 4, raised.size
    assert_equal 1, raised.uniq(&:object_id).size
    assert_equal "", said
  end

  def test_the_exception_keeps_the_trace_of_where_it_was_raised
    line = __LINE__ + 2
    Gyre.run do |task|
      broken = task.async { raise "here" }
      error = assert_raises(RuntimeError) { broken.wait }
      assert_match(/#{Regexp.escape(__FILE__)}:#{line}:/, error.backtrace.first)
    end
  end

  def test_waiting_for_oneself_is_refused
    Gyre.run do |task|
      error = assert_raises(Gyre::Error) { task.wait }
      assert_match(/task "main" cannot end before/, error.message)
    end
  end

  def test_waiting_for_a_task_above_is_refused
    Gyre.run { |task| task.async { |child| child.async { assert_raises(Gyre::Error) { task.wait } }.wait }.wait }
  end

  def test_a_plain_fiber_may_wait
    value = nil
    Gyre.run do |task|
      slow = task.async { sleep(0.01) && :value }
      Fiber.schedule { value = slow.wait }
    end
    assert_equal :value, value
  end

  def test_a_waiter_that_gives_up_leaves_the_others_waiting
    value = nil
    Gyre.run do |task|
      gate = Gyre::Queue.new
      slow = task.async { gate.pop }
      task.async { value = slow.wait }
      assert_raises(Gyre::TimeoutError) { task.with_timeout(0.01) { slow.wait } }
      gate.push(:value)
    end
    assert_equal :value, value
  end

  def test_other_threads_may_wait
    Gyre.run do |task|
      slow = task.async { sleep(0.02) && :value }
      over = task.async { :over }
      threads = [slow, slow, over].map { |waited| Thread.new { waited.wait } }
      assert_equal %i[value value over], threads.map(&:value)
    end
  end

  def test_other_threads_get_the_exception_and_nothing_is_reported
    _, said = capture do
      Gyre.run do |task|
        broken = task.async { sleep(0.02) && raise("broken") }
        assert_equal("broken", Thread.new { assert_raises(RuntimeError) { broken.wait } }.value.message)
      end
    end
    assert_equal "", said
  end

  def test_another_thread_may_wait_for_the_root_until_it_is_over
    root = Thread::Queue.new
    running = Thread.new { Gyre.run { |task| root.push(task) && sleep(0.02) && :value } }
    assert_equal :value, root.pop.wait
    running.join
  end

  def test_fibers_of_another_loop_may_wait_while_others_run_there
    gate = Gyre::Queue.new
    Gyre.run do |task|
      slow = task.async { gate.pop }
      other = Thread.new do
        Gyre.run do |there|
          there.async { 3.times { sleep 0.001 } && gate.push(:value) }
          slow.wait
        end
      end
      assert_equal :value, slow.wait
      assert_equal :value, other.value
    end
  end
end
