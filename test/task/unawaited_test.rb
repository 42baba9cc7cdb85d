# frozen_string_literal: true

# Failures of tasks that the program has forgotten, below a parent that runs on: reported soon,
# without false alarms.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("TaskUnawaitedTest") do
  def start_and_forget(task, name)
    task.async(name) { sleep(0.001) && raise("out of reach") }
    nil
  end

  # Stacks of pooled fibers may show a dead task to the collector for a while, so other tasks use
  # them.
  def use_fibers(task)
    Array.new(5) { task.async { sleep 0.001 } }.each(&:wait)
  end

  # How long it waits before it looks for forgotten tasks.
  def looking_after(seconds)
    before = Gyre::Task::Unawaited::LOOK_AFTER_S
    set = ->(value) { Gyre::Task::Unawaited.send(:remove_const, :LOOK_AFTER_S) && Gyre::Task::Unawaited.const_set(:LOOK_AFTER_S, value) }
    set.call(seconds)
    yield
  ensure
    set.call(before)
  end

  def test_the_failure_of_a_forgotten_task_is_reported_while_its_parent_runs_on
    _, said = capture do
      looking_after(0.1) do
        Gyre.run do |task|
          5.times { |index| start_and_forget(task, "forgotten #{index}") }
          eventually(what: "a report") do
            use_fibers(task)
            $stderr.string.include?("out of reach")
          end
        end
      end
    end
    assert_equal 5, said.scan("out of reach").size
    assert_equal 5, said.scan(/task "forgotten \d"/).uniq.size
  end

  def test_a_task_that_was_old_when_it_failed_is_found_too
    _, said = capture do
      looking_after(0.02) do
        Gyre.run do |task|
          gate = Gyre::Queue.new
          5.times { |index| task.async("old #{index}") { gate.pop && raise("out of reach") }.then { nil } }
          4.times { GC.start }
          5.times { gate.push(true) }
          eventually(what: "a report") do
            use_fibers(task)
            $stderr.string.include?("out of reach")
          end
        end
      end
    end
    assert_match(/task "old \d"/, said)
  end

  def test_the_failure_of_a_referenced_task_can_be_awaited_however_late
    _, said = capture do
      looking_after(0.1) do
        Gyre.run do |task|
          held = task.async("held") { raise "in time" }
          start_and_forget(task, "forgotten")
          sleep 0.15 # and it has looked
          GC.start
          assert_raises(RuntimeError) { held.wait }
        end
      end
    end
    refute_match(/in time/, said)
    assert_match(/out of reach/, said)
  end

  def test_it_does_not_keep_the_run_going
    looking_after(50) do
      took = duration_s { capture { Gyre.run { |task| start_and_forget(task, "forgotten") } } }
      assert_operator took, :<, 40
      took = duration_s do
        capture do
          Thread.new do
            Fiber.set_scheduler(Gyre::Scheduler.new)
            Fiber.schedule { Gyre.run { |task| start_and_forget(task, "forgotten") } }
          end.join
        end
      end
      assert_operator took, :<, 40
    end
  end

  def test_awaited_failures_leave_nothing
    Gyre.run do |task|
      1_000.times do
        task.async { raise "x" }.wait
      rescue RuntimeError
        nil
      end
      unawaited = task.run.unawaited
      assert_empty unawaited.instance_variable_get(:@failures)
    end
  end
end
