# frozen_string_literal: true

# A task's life as its users see it: children, values, questions. What has files of its own under
# lib/gyre/task has tests of its own under test/task.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("TaskTest") do
  def test_a_child_runs_at_once_up_to_its_first_wait
    order = []
    Gyre.run do |task|
      task.async { order << 1 && sleep(0.001) && order << 3 }
      order << 2
    end
    assert_equal [1, 2, 3], order
  end

  def test_children_run_beside_each_other
    begun = 0
    Gyre.run { |task| 10.times { task.async { (begun += 1).then { sleep 0.001 until begun == 10 } } } } # each waits for all
    assert_equal 10, begun
  end

  def test_async_needs_a_block
    Gyre.run { |task| assert_raises(ArgumentError) { task.async } }
  end

  def test_wait_gives_the_value
    Gyre.run do |task|
      assert_equal(3, task.async { sleep(0.001) && 3 }.wait)
      assert_equal(4, task.async { 4 }.wait)
    end
  end

  def test_wait_may_be_limited
    Gyre.run do |task|
      gate = Gyre::Queue.new
      slow = task.async("slow") { gate.pop }
      error = assert_raises(Gyre::TimeoutError) { slow.wait(timeout: 0.01) }
      assert_equal 'task "slow" is not over after 0.01 s', error.message
      assert_nil Thread.new { slow.join(0.01) }.value
      gate.push(:value)
      assert_equal :value, slow.wait(timeout: 60)
    end
  end

  def test_join_returns_whether_it_is_over
    Gyre.run do |task|
      gate = Gyre::Queue.new
      slow = task.async { gate.pop }
      assert_nil slow.join(0.01)
      assert_nil slow.join(-1)
      gate.push(nil)
      assert_same slow, slow.join
      assert_raises(KeyError) { task.async { raise KeyError }.join(60) }
    end
  end

  def test_wait_all_waits_for_the_children_and_then_for_the_task
    Gyre.run do |task|
      order = []
      task.async(transient: true) { sleep }
      child = task.async do |own|
        own.async { own.async { sleep(0.01) && order << 2 } && sleep(0.001) && order << 1 }
        assert_nil own.wait_all
        :value
      end
      assert_nil task.wait_all
      assert_equal [[1, 2], :value], [order, child.wait_all]
      bad = task.async { |own| own.async { sleep(0.001) && raise(KeyError) } }
      assert_raises(KeyError) { bad.wait_all }
      assert_equal 1, task.children.size
    end
  end

  def test_current_is_the_task_that_runs_the_code
    Gyre.run do |task|
      assert_same task, Gyre::Task.current
      child = task.async do |inner|
        assert_same inner, Gyre::Task.current
        sleep 0.001
        assert_same inner, Gyre::Task.current
      end
      assert_same task, Gyre::Task.current
      child.wait
      assert_same task, Gyre::Task.current
    end
  end

  def test_current_outside_of_a_task_raises_and_the_question_mark_does_not
    assert_nil Gyre::Task.current?
    error = assert_raises(RuntimeError) { Gyre::Task.current }
    assert_match(/Gyre\.run/, error.message)
    Gyre.run { Fiber.schedule { assert_nil Gyre::Task.current? } }
  end

  def test_current_does_not_survive_in_a_fiber_that_is_used_again
    Gyre.run do |task|
      3.times { task.async { nil }.wait }
      Fiber.schedule { assert_nil Gyre::Task.current? }
    end
  end

  def test_status_goes_from_running_to_what_came_of_it
    Gyre.run do |task|
      good = task.async { sleep 0.001 }
      bad = task.async { sleep(0.001) && raise("x") }
      stopped = task.async { sleep }
      assert_equal(%i[running running running], [good, bad, stopped].map(&:status))
      assert [good, bad, stopped].all?(&:alive?)
      stopped.stop
      good.wait
      assert_raises(RuntimeError) { bad.wait }
      stopped.wait
      assert_equal(%i[completed failed stopped], [good, bad, stopped].map(&:status))
      assert [good, bad, stopped].none?(&:alive?)
      assert [good, bad, stopped].all?(&:finished?)
    end
  end

  def test_result_neither_waits_nor_raises
    Gyre.run do |task|
      good = task.async { sleep(0.001) && :value }
      bad = task.async { sleep(0.001) && raise("bad") }
      stopped = task.async { sleep }
      assert_equal([nil, nil, nil], [good, bad, stopped].map(&:result))
      sleep 0.01
      stopped.stop.wait
      assert_equal :value, good.result
      assert_equal "bad", bad.result.message
      assert_nil stopped.result
    end
  end

  def test_a_task_is_over_only_when_its_children_are
    Gyre.run do |task|
      ended = false
      parent = task.async do |inner|
        inner.async { sleep(0.02) && ended = true }
        :value
      end
      assert_predicate parent, :alive?
      assert_equal :value, parent.wait
      assert ended
    end
  end

  def test_waiting_for_children_holds_no_fiber
    Gyre.run do |task|
      parent = task.async { |inner| inner.async { sleep 0.02 } }
      assert_equal 2, Fiber.scheduler.stats[:tasks]
      parent.wait
    end
  end

  def test_a_transient_child_does_not_keep_its_parent
    unwound = false
    Gyre.run do |task|
      task.async(transient: true) do
        sleep
      ensure
        sleep 0.01
        unwound = true
      end
      task.async { sleep 0.01 }
      sleep 0.001
    end
    assert unwound
  end

  def test_a_transient_child_lives_as_long_as_others_need_it
    seen = nil
    Gyre.run do |task|
      clock = task.async(transient: true) { sleep }
      assert_predicate clock, :transient?
      task.async { sleep(0.01) && seen = clock.status }
    end
    assert_equal :running, seen
  end

  def test_a_child_may_be_given_a_sibling_by_its_parent
    order = []
    Gyre.run do |task|
      task.async do |child|
        sleep 0.001
        child.parent.async { sleep(0.001) && order << :sibling }
        order << :child
      end
    end
    assert_equal %i[child sibling], order
  end

  def test_a_task_that_is_over_takes_no_children
    Gyre.run do |task|
      over = task.async("early") { nil }
      error = assert_raises(Gyre::Error) { over.async { nil } }
      assert_match(/task "early" is over/, error.message)
    end
  end

  def test_another_thread_may_not_start_children
    Gyre.run do |task|
      error = Thread.new { assert_raises(Gyre::Error) { task.async { nil } } }.value
      assert_match(/another thread/, error.message)
    end
  end

  def test_sleep_and_yield_let_others_run
    order = []
    Gyre.run do |task|
      task.async { |child| 2.times { |index| (order << [:a, index]) && child.yield } }
      task.async { |child| 2.times { |index| (order << [:b, index]) && child.yield } }
      assert_kind_of Integer, task.sleep(0.01)
      order << :slept
    end
    assert_equal [[:a, 0], [:b, 0], [:a, 1], [:b, 1], :slept], order
  end

  def test_sleep_without_a_number_goes_on_until_stopped
    Gyre.run do |task|
      sleeper = task.async(&:sleep)
      sleep 0.01
      assert_predicate sleeper, :alive?
      sleeper.stop
    end
  end

  def test_annotate_shows_what_it_does
    Gyre.run do |task|
      assert_same task, task.annotate("counting")
      assert_equal "counting", task.annotation
      assert_match(/main.* running \(counting\)/, task.inspect)
    end
  end

  def test_a_task_without_a_name_is_called_after_its_place
    Gyre.run do |task|
      child = task.async { sleep 0.001 }
      assert_nil child.name
      assert_equal "task at #{__FILE__}:#{__LINE__ - 2}", child.label
      assert_equal 'task "fetch"', task.async("fetch") { nil }.label
    end
  end

  def test_fiber_locals_and_thread_variables_are_its_own
    Gyre.run do |task|
      Thread.current[:mine] = :root
      task.async { assert_nil Thread.current[:mine] }
      assert_equal :root, Thread.current[:mine]
    end
  end

  def test_many_tasks_start_and_end
    sum = 0
    Gyre.run { |task| 5_000.times { |index| task.async { sleep(0.001) && sum += index } } }
    assert_equal 12_497_500, sum
  end

  def test_deep_trees_end_and_stop
    depth = 0
    deeper = lambda do |task|
      depth += 1
      depth < 500 ? task.async(&deeper) : sleep(0.01)
    end
    Gyre.run(&deeper)
    assert_equal 500, depth

    Gyre.run do |task|
      depth = 0
      forever = ->(inner) { (depth += 1) < 500 ? inner.async(&forever) : sleep }
      top = task.async(&forever)
      top.stop.wait
      assert_empty task.children
    end
  end

  def test_a_task_that_gets_no_fiber_is_not_left
    Gyre.run do |task|
      Fiber.scheduler.define_singleton_method(:spawn) { |*| raise FiberError, "can't alloc machine stack" }
      assert_raises(FiberError) { task.async { nil } }
      assert_empty task.children
      Fiber.scheduler.singleton_class.remove_method(:spawn)
    end
  end
end
