# frozen_string_literal: true

# Circles of fibers that wait for each other, and what comes of them: DeadlockError when it is
# certain, silence when it is not.

require "test_helper"
require "support/engines"
require "gyre"
require "monitor"

GyreTest::Engines.test_case("InspectionDeadlockTest") do
  def deadlock(&block)
    error = assert_raises(Gyre::DeadlockError) { Gyre.run(&block) }
    first, *links = error.message.lines(chomp: true)
    assert_equal "each of these waits for the next, and nothing else can happen:", first
    links.map { |line| line.strip.sub(/ at \S+:\d+\z/, " at a place") }.sort
  end

  # Two that each hold what the other waits for.
  def cross(task, one, two)
    [task.async("a") { one.synchronize { task.yield && nil || two.synchronize { nil } } },
     task.async("b") { two.synchronize { one.synchronize { nil } } }]
  end

  def test_two_mutexes_taken_in_different_order
    assert_equal [%(task "a" is waiting for a mutex that task "b" holds at a place),
                  %(task "b" is waiting for a mutex that task "a" holds at a place)],
                 (deadlock { |task| cross(task, Mutex.new, Mutex.new) })
    assert_equal 2, (deadlock { |task| cross(task, Monitor.new, Monitor.new) }.size)
  end

  def test_a_deadlock_is_found_before_idle_fibers_are_freed
    links = deadlock do |task|
      Array.new(100) { task.async { sleep 0.01 } }.each(&:wait)
      cross(task, Mutex.new, Mutex.new)
    end
    assert_equal 2, links.size
  end

  def test_tasks_that_wait_for_each_other_and_their_ensure_runs
    cleaned = []
    links = deadlock do |task|
      three = nil
      one = task.async("one") { task.yield && nil || three.wait }
      two = task.async("two") do
        one.wait
      ensure
        cleaned << :two
      end
      three = task.async("three") { two.wait }
      task.async("bystander") { three.wait }
    end
    assert_equal [%(task "one" is waiting for task "three" at a place),
                  %(task "three" is waiting for task "two" at a place),
                  %(task "two" is waiting for task "one" at a place)], links
    assert_equal [:two], cleaned
  end

  def test_a_task_ends_only_after_its_children
    links = deadlock do |task|
      other = nil
      parent = task.async("parent") { |it| it.async("child") { task.yield && nil || other.wait } }
      other = task.async("other") { parent.wait }
    end
    assert_equal [%(task "child" is waiting for task "other" at a place),
                  %(task "other" is waiting for task "parent" at a place),
                  %(task "parent" is waiting for its children)], links
  end

  def test_the_caller_of_run_holds_what_a_task_waits_for
    mutex = Mutex.new
    links = mutex.synchronize { deadlock { mutex.synchronize { nil } } }
    assert_equal ["task \"main\" is waiting for a mutex that the caller of Gyre.run holds at a place",
                  "the caller of Gyre.run is waiting for its children"], links.sort
  end

  def test_plain_fibers_of_a_scheduler
    mutexes = Array.new(2) { Mutex.new }
    error = nil
    Thread.new do
      scheduler = Gyre::Scheduler.new(backend)
      def scheduler.report(*) = nil
      Fiber.set_scheduler(scheduler)
      [mutexes, mutexes.reverse].each do |one, two|
        Fiber.schedule { one.synchronize { sleep(0) && two.synchronize { nil } } }
      end
      error = assert_raises(Gyre::DeadlockError) { scheduler.run }
      assert_raises(Gyre::DeadlockError) { scheduler.close } # which stops them
    end.join
    assert_equal 2, error.message.scan("a fiber is waiting for a mutex that a fiber holds").size
  end

  # Takes a place in each semaphore, with some time between.
  def nested(task, name, *semaphores)
    task.async(name) { take_in_turn(task, semaphores) }
  end

  def take_in_turn(task, semaphores)
    first, *others = semaphores
    first&.acquire { task.yield && nil || take_in_turn(task, others) }
  end

  def test_two_semaphores_taken_in_different_order
    one, two = Array.new(2) { Gyre::Semaphore.new }
    assert_equal [%(task "a" is waiting for a place in a semaphore of 1 that task "b" holds at a place),
                  %(task "b" is waiting for a place in a semaphore of 1 that task "a" holds at a place)],
                 (deadlock { |task| nested(task, "a", one, two) && nested(task, "b", two, one) })
    assert_equal [0, 0], [one.count, two.count]
  end

  def test_all_holders_of_a_semaphore_want_another_place_in_it
    semaphore = Gyre::Semaphore.new(2)
    links = deadlock do |task|
      2.times { |index| nested(task, "t#{index}", semaphore, semaphore) }
      task.async("bystander") { semaphore.acquire { nil } }
    end
    assert_includes 1..2, links.size
    assert_match(/\Atask "t\d" is waiting for a place in a semaphore of 2 that task "t0" and task "t1" hold at a place\z/, links.first)
    own = deadlock { |task| nested(task, "alone", *[Gyre::Semaphore.new] * 2) }
    assert_equal [%(task "alone" is waiting for a place in a semaphore of 1 that task "alone" holds at a place)], own
  end

  def test_a_semaphore_whose_tasks_wait_for_the_one_that_starts_them
    links = deadlock do |task|
      semaphore = Gyre::Semaphore.new
      starter = nil
      starter = task.async("starter") do
        semaphore.async("first", parent: task) { task.yield && nil || starter.wait }
        semaphore.async("second", parent: task) { nil }
      end
    end
    assert_equal [%(task "first" is waiting for task "starter" at a place),
                  %(task "starter" is waiting for a place in a semaphore of 1 that task "first" holds at a place)], links
  end

  def test_two_circles_that_have_nothing_to_do_with_each_other
    assert_equal 2, (deadlock { |task| 2.times { cross(task, Mutex.new, Mutex.new) } }.size)
  end

  def test_no_alarm_while_one_of_a_semaphores_holders_can_go_on
    _, said = capture do
      Gyre.run do |task|
        queue = Thread::Queue.new
        semaphore = Gyre::Semaphore.new(2)
        task.async { semaphore.acquire { queue.pop } }
        task.async { semaphore.acquire { task.yield && nil || semaphore.acquire { nil } } }
        task.yield
        task.scheduler.refuse_deadlock(true)
        Thread.new { queue.push(1) }.join
      end
    end
    assert_empty said
  end

  # A place that is taken without a block may be given back by another task.
  def test_places_taken_without_a_block_make_a_report_and_no_alarm
    one, two = Array.new(2) { Gyre::Semaphore.new }
    _, said = capture do
      Gyre.run do |task|
        a = task.async("a") { one.acquire && task.yield && nil || two.acquire }
        b = task.async("b") { two.acquire && one.acquire }
        reader = Thread.new { eventually { $stderr.string.include?("waits for the next") } && [a, b].each(&:stop) }
        [a, b].each(&:wait)
        reader.join
      end
    end
    assert_match(/task "a" is waiting for a place in a semaphore of 1 that task "b" holds at /, said)
  end

  def test_the_holders_of_places_that_go_from_hand_to_hand_are_unknown
    semaphore = Gyre::Semaphore.new
    assert_equal [], semaphore.holders
    semaphore.acquire
    assert_equal [Fiber.current], semaphore.holders
    assert_predicate semaphore, :lent?
    semaphore.release
    refute_predicate semaphore, :lent?
    semaphore.acquire { assert_equal [Fiber.current], semaphore.holders }
    Thread.new { semaphore.acquire }.join
    semaphore.release
    assert_predicate semaphore, :lent?
    assert_nil semaphore.holders
    assert_equal 0, semaphore.count
  end

  def test_no_alarm_while_a_timer_may_end_it
    Gyre.run do |task|
      two = nil
      one = task.async { task.with_timeout(0.3) { task.yield && nil || two.wait } rescue Gyre::TimeoutError }
      two = task.async { one.wait }
    end
  end

  def test_no_alarm_for_waits_for_a_thread_or_a_signal
    queue = Thread::Queue.new
    signals = Thread::Queue.new
    before = trap("USR1") { signals.push(:usr1) }
    Gyre.run do |task|
      mutex = Mutex.new
      tasks = [task.async { mutex.synchronize { queue.pop } }, task.async { mutex.synchronize { signals.pop } }]
      2.times { |index| task.async { tasks[index].wait } }
      task.yield
      task.scheduler.refuse_deadlock(true)
      sends = Thread.new do
        queue.push(1)
        Process.kill(:USR1, Process.pid)
      end
      assert_equal [1, :usr1], tasks.map(&:wait)
      sends.join
    end
  ensure
    trap("USR1", before)
  end

  def test_no_alarm_while_work_in_a_thread_may_end_it
    Gyre.run do |task|
      two = nil
      one = task.async { task.yield && nil || two.wait }
      two = task.async { one.wait }
      task.async { Gyre::Offload.call { sleep 0.3 } && nil || one.stop }
    end
  end

  def test_a_report_and_no_alarm_while_a_wait_for_a_thread_could_end_it
    control = Thread::Queue.new
    unstuck = nil
    _, said = capture do
      Gyre.run do |task|
        a, b = cross(task, Mutex.new, Mutex.new)
        task.async("supervisor") { unstuck = control.pop and b.stop }
        sender = Thread.new do
          eventually { $stderr.string.include?("waits for the next") }
          control.push(:unstick)
        end
        a.wait
        sender.join
      end
    end
    assert_equal :unstick, unstuck
    assert_equal 1, said.scan("each of these waits for the next, and only another thread or a signal could end it:").size
    assert_match(/^  task "a" is waiting for a mutex that task "b" holds at /, said)
  end

  def test_a_loop_that_has_looked_sleeps_undisturbed
    Gyre.run do |task|
      queue = Thread::Queue.new
      task.async { queue.pop }
      watcher = Thread.new do
        eventually { task.scheduler.pulse.nil? && task.scheduler.stats[:timers].zero? }
        eventually(what: "a sleep without a break") do # what stops and continues the process, say, breaks one
          before = task.scheduler.stats[:waits]
          sleep 0.25
          task.scheduler.stats[:waits] == before
        end
      ensure
        queue.push(nil)
      end
      task.children.first.wait
      watcher.join
    end
  end
end
