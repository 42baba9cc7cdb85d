# frozen_string_literal: true

# How tasks end, above all when they are stopped: whatever they wait for, wherever they stand in the
# tree; cleaning up runs to its end.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("TaskLifecycleTest") do
  # Starts a task that waits as in the block, stops it, and returns how it ended.
  def stopped_while
    ended = nil
    Gyre.run do |task|
      waiting = task.async do
        yield
        ended = :went_on
      rescue Gyre::Stop
        ended = :stopped
        raise
      end
      sleep 0.01
      assert_same waiting, waiting.stop
      assert_nil waiting.wait
      assert_equal :stopped, waiting.status
    end
    ended
  end

  def test_it_stops_a_sleeping_task
    assert_equal(:stopped, stopped_while { sleep 100 })
  end

  def test_it_stops_a_reading_task
    reader, writer = IO.pipe
    assert_equal(:stopped, stopped_while { reader.read(1) })
    assert_equal(:stopped, stopped_while { reader.wait_readable })
  ensure
    [reader, writer].each(&:close)
  end

  def test_it_stops_an_accepting_task
    server = TCPServer.new("127.0.0.1", 0)
    assert_equal(:stopped, stopped_while { server.accept })
  ensure
    server.close
  end

  def test_it_stops_a_task_that_waits_for_a_mutex
    mutex = Thread::Mutex.new
    Gyre.run do |task|
      task.async(transient: true) { mutex.synchronize { sleep } }
      waiting = task.async { mutex.synchronize { flunk "it had the mutex" } }
      waiting.stop.wait
      assert_equal :stopped, waiting.status
    end
    refute_predicate mutex, :locked?
  end

  def test_it_stops_a_task_that_waits_for_a_queue
    assert_equal(:stopped, stopped_while { Thread::Queue.new.pop })
    assert_equal(:stopped, stopped_while { Gyre::Queue.new.pop })
  end

  def test_it_stops_a_task_that_waits_for_a_condition_variable
    skip "Ruby before 3.2 leaves an interrupted ConditionVariable#wait without its mutex" if RUBY_VERSION < "3.2"

    assert_equal :stopped, (stopped_while do
      mutex = Thread::Mutex.new
      mutex.synchronize { Thread::ConditionVariable.new.wait(mutex) }
    end)
  end

  def test_it_stops_a_task_that_waits_for_a_thread
    thread = Thread.new { sleep }
    assert_equal(:stopped, stopped_while { thread.join })
  ensure
    thread.kill.join
  end

  def test_it_stops_a_task_that_waits_for_a_child_process
    pid = Process.spawn("sleep", "100")
    assert_equal(:stopped, stopped_while { Process.wait(pid) })
  ensure
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  def test_it_stops_a_task_that_waits_for_another_task
    Gyre.run do |task|
      sleeper = task.async { sleep }
      waiting = task.async { sleeper.wait }
      waiting.stop.wait
      assert_equal :stopped, waiting.status
      assert_equal :running, sleeper.status
      sleeper.stop
    end
  end

  def test_it_stops_one_whose_inner_fiber_waits
    assert_equal(:stopped, stopped_while { Fiber.new { sleep(100) }.resume })
  end

  def test_it_stops_one_inside_an_enumerator
    skip "before Ruby 3.2 the fiber of an Enumerator blocks its thread" if RUBY_VERSION < "3.2"

    assert_equal(:stopped, stopped_while { Enumerator.new { |yielder| sleep(100) && yielder << 1 }.next })
  end

  def test_ensure_runs_to_its_end_though_it_waits
    steps = []
    Gyre.run do |task|
      waiting = task.async do
        sleep
      ensure
        steps << :begun
        sleep 0.02
        steps << :ended
      end
      waiting.stop
      waiting.stop
      assert_equal [], steps
      waiting.wait
      assert_equal %i[begun ended], steps
    end
  end

  def test_stopping_again_while_it_cleans_up_does_not_cut_that_off
    ended = false
    Gyre.run do |task|
      waiting = task.async do
        sleep
      ensure
        sleep 0.03
        ended = true
      end
      waiting.stop
      sleep 0.01
      waiting.stop.wait
    end
    assert ended
  end

  def test_cleaning_up_may_start_tasks_and_wait_for_them
    said = nil
    Gyre.run do |task|
      waiting = task.async do |inner|
        sleep
      ensure
        said = inner.async { sleep(0.01) && :goodbye }.wait
      end
      waiting.stop.wait
    end
    assert_equal :goodbye, said
  end

  def test_a_rescue_of_standard_errors_does_not_swallow_it
    Gyre.run do |task|
      waiting = task.async do
        sleep
      rescue StandardError
        flunk "swallowed"
      end
      waiting.stop.wait
      assert_equal :stopped, waiting.status
    end
  end

  def test_a_task_ends_with_the_exception_of_its_cleaning_up
    Gyre.run do |task|
      waiting = task.async do
        sleep
      ensure
        raise "cannot clean up"
      end
      assert_equal("cannot clean up", assert_raises(RuntimeError) { waiting.stop.wait }.message)
    end
  end

  def test_stopping_a_finished_task_does_nothing
    Gyre.run do |task|
      over = task.async { :value }
      assert_same over, over.stop
      assert_equal :completed, over.status
      assert_equal :value, over.wait
    end
  end

  def test_stopping_oneself_ends_the_task_there
    steps = []
    Gyre.run do |task|
      own = task.async do |inner|
        steps << 1
        inner.stop
        steps << 2
      ensure
        steps << 3
      end
      assert_nil own.wait
      assert_equal :stopped, own.status
    end
    assert_equal [1, 3], steps
  end

  def test_raising_stop_is_the_same
    Gyre.run { |task| assert_equal(:stopped, task.async { raise Gyre::Stop }.status) }
  end

  def test_stopping_oneself_while_cleaning_up_does_nothing
    finished = false
    Gyre.run do |task|
      task.async do |inner|
        inner.stop
      ensure
        inner.stop
        finished = true
      end
    end
    assert finished
  end

  def test_it_stops_everything_below
    order = []
    Gyre.run do |task|
      top = task.async do |one|
        one.async do |two|
          two.async do
            sleep
          ensure
            order << :below
          end
          sleep
        ensure
          order << :middle
        end
        sleep
      ensure
        order << :top
      end
      top.stop.wait
      assert_empty top.children
    end
    assert_equal %i[below middle top], order
  end

  def test_it_stops_the_children_of_one_whose_body_is_over
    Gyre.run do |task|
      child = nil
      parent = task.async { |inner| (child = inner.async { sleep }) && :value }
      parent.stop
      assert_equal :value, parent.wait
      assert_equal :stopped, child.status
    end
  end

  def test_a_child_may_stop_its_parent
    ended = []
    Gyre.run do |task|
      parent = task.async do |inner|
        inner.async do |child|
          sleep 0.001
          child.parent.stop
          ended << :never
        ensure
          ended << :child
        end
        sleep
      ensure
        ended << :parent
      end
      parent.wait
      assert_equal :stopped, parent.status
    end
    assert_equal %i[child parent], ended
  end

  def test_a_child_may_stop_its_parent_before_its_first_wait
    Gyre.run do |task|
      parent = task.async do |inner|
        inner.async { |child| child.parent.stop }
        sleep 100
      end
      parent.wait
      assert_equal :stopped, parent.status
    end
  end

  def test_a_sibling_may_be_stopped_by_a_task_that_ends
    Gyre.run do |task|
      sleeper = task.async { sleep }
      task.async { sleep(0.001) && sleeper.stop }
      sleeper.wait
      assert_equal :stopped, sleeper.status
    end
  end

  def test_another_thread_may_stop_a_task
    Gyre.run do |task|
      sleeper = task.async { sleep }
      thread = Thread.new { sleeper.stop }
      assert_nil sleeper.wait
      assert_same sleeper, thread.value
      assert_equal :stopped, sleeper.status
    end
  end

  def test_another_thread_may_stop_a_task_of_a_scheduler_that_was_there_before
    status = nil
    Thread.new do
      Fiber.set_scheduler(Gyre::Scheduler.new)
      Fiber.schedule do
        Gyre.run do |task|
          sleeper = task.async { sleep }
          Thread.new { sleeper.stop }.join
          sleeper.wait
          status = sleeper.status
        end
      end
    end.join
    assert_equal :stopped, status
  end

  def test_another_thread_may_stop_the_root
    root = Thread::Queue.new
    thread = Thread.new { Gyre.run { |task| root.push(task) && sleep } }
    root.pop.stop
    assert_nil thread.value
  end

  def test_a_woken_task_is_stopped_at_its_next_wait_at_the_latest
    Gyre.run do |task|
      queue = Thread::Queue.new
      waiting = task.async { queue.pop && sleep(100) }
      queue.push(1)
      waiting.stop.wait
      assert_equal :stopped, waiting.status
    end
  end

  def test_a_thousand_are_stopped_at_once
    unwound = 0
    Gyre.run do |task|
      group = task.async do |inner|
        1_000.times do
          inner.async do
            sleep
          ensure
            unwound += 1
          end
        end
        sleep
      end
      group.stop
    end
    assert_equal 1_000, unwound
  end

  # As Thread#raise and Thread#kill may do at any line.
  def test_an_exception_while_a_task_ends_does_not_keep_its_run
    { Interrupt => :raised, RuntimeError => :reported }.each do |error, meant|
      %i[stop_family end_children finish disown task_finished].each do |step|
        said = nil
        thread = Thread.new do
          capture { said = strike_in(step, error) }
        end
        assert thread.join(60), "#{error.name} in #{step}: the run does not end"
        assert_equal meant, said, step.to_s
      end
    end
  end

  private

  # Returns what became of the exception.
  def strike_in(step, error)
    struck = false
    Gyre.run do |root|
      root.async do |task|
        2.times { task.async { sleep 0.001 } }
        owner = step == :task_finished ? task.run : task
        owner.define_singleton_method(step) do |*arguments, **options|
          super(*arguments, **options).tap { (struck = true) && raise(error, "struck") unless struck }
        end
        task.singleton_class.send(:public, step) if step != :finish && owner.equal?(task)
        raise "ended" if step == :stop_family
      end
    end
    :reported
  rescue error
    :raised
  end
end
