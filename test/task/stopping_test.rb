# frozen_string_literal: true

# defer_stop, and whose Stop comes when several tasks are stopped together. How tasks unwind is in
# lifecycle_test.rb.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("TaskStoppingTest") do
  def test_a_stop_that_comes_in_the_middle_waits_for_the_end_of_the_block
    Gyre.run do |task|
      steps = []
      child = task.async do |own|
        own.defer_stop do
          sleep 0.01
          steps << :saved << own.stop_deferred?
        end
        steps << :never
      ensure
        steps << :cleaned
      end
      child.stop
      refute_predicate child, :finished?
      child.wait
      assert_equal [:saved, true, :cleaned], steps
      assert_predicate child, :stopped?
    end
  end

  def test_children_that_begin_after_a_stop_that_has_not_been_raised_yet_are_stopped_too
    Gyre.run do |task|
      late = nil
      child = task.async do |own|
        own.async { own.stop }
        late = own.async { sleep } # and there is no wait at which Stop could be raised
      end
      task.with_timeout(60) { child.wait }
      assert late.nil? || late.stopped? # nil where an engine raises it right there
    ensure
      late&.stop
    end
  end

  def test_without_a_stop_it_is_just_the_block
    Gyre.run do |task|
      assert_equal(:value, task.defer_stop { sleep(0.001) && :value })
      assert_raises(KeyError) { task.defer_stop { raise KeyError } }
      child = task.async { |own| own.defer_stop { nil } || sleep }
      child.stop.wait
      assert_predicate child, :stopped?
    end
  end

  def test_the_inner_end_of_a_nested_one_is_not_the_end
    Gyre.run do |task|
      steps = []
      child = task.async do |own|
        own.defer_cancel do
          own.defer_cancel { sleep 0.001 }
          sleep 0.001
          steps << :outer
        end
      end
      child.cancel.wait
      assert_equal [:outer], steps
      assert_predicate child, :cancelled?
    end
  end

  def test_a_stop_of_the_parent_waits_too_and_spares_the_tasks_below
    Gyre.run do |task|
      steps = []
      parent = task.async do |own|
        own.async do |child|
          child.defer_stop do
            gate = Gyre::Queue.new
            helper = child.async { gate.pop && steps << :helped }
            sleep 0.01
            steps << helper.status
            gate.push(true)
            helper.wait
          end
        end
        sleep
      ensure
        steps << :parent_cleaned
      end
      parent.stop.wait
      assert_equal %i[parent_cleaned running helped], steps
    end
  end

  def test_an_exception_of_the_block_goes_first_and_the_stop_follows
    Gyre.run do |task|
      failing = task.async { |own| own.defer_stop { sleep(0.001) && raise("broken") } }
      failing.stop
      assert_equal "broken", assert_raises(RuntimeError) { failing.wait }.message

      rescuing = task.async do |own|
        own.defer_stop { sleep(0.001) && raise("broken") }
      rescue RuntimeError
        sleep
      end
      rescuing.stop.wait
      assert_predicate rescuing, :stopped?
    end
  end

  def test_a_task_may_stop_itself_within
    Gyre.run do |task|
      reached = nil
      child = task.async { |own| own.defer_stop { own.stop && reached = true } && flunk("went on") }
      child.wait
      assert reached
      assert_predicate child, :stopped?
    end
  end

  def test_in_an_ensure_after_a_stop_it_is_just_the_block
    Gyre.run do |task|
      cleaned = nil
      child = task.async do |own|
        sleep
      ensure
        own.defer_stop { sleep(0.001) && cleaned = true }
      end
      child.stop.wait
      assert cleaned
    end
  end

  def test_the_deadline_of_a_parent_waits_and_ones_own_does_not
    Gyre.run do |task|
      saved = nil
      assert_raises(Gyre::TimeoutError) do
        Gyre.with_deadline(0.01) do
          task.async { |own| own.defer_stop { sleep(0.03) && saved = true } }.wait
        end
      end
      task.children.each(&:wait)
      assert saved
      assert_raises(Gyre::TimeoutError) { task.defer_stop { Gyre.with_deadline(0.01) { sleep } } }
    end
  end

  def test_a_second_interrupt_gets_through
    code = <<~RUBY
      require "gyre"
      begin
        Gyre.run do |task|
          task.async do |own|
            own.defer_stop { Process.kill(:INT, Process.pid) && sleep(0.01) && Process.kill(:INT, Process.pid) && sleep }
          ensure
            puts "left"
          end
          sleep
        end
      rescue Interrupt
        puts "interrupted"
      end
    RUBY
    run = ruby("-e", code, env: { "GYRE_BACKEND" => backend })
    assert_equal ["left\ninterrupted\n", ""], [run.out, run.err]
  end

  def test_a_task_that_waits_for_a_child_sees_its_own_stop_rather_than_the_childs_nil
    Gyre.run do |task|
      seen = nil
      parent = task.async do |own|
        own.async { sleep }.wait
        seen = :went_on
      rescue Gyre::Stop
        seen = :stopped
        sleep 0.001
        raise
      end
      parent.stop.wait
      assert_equal :stopped, seen
    end
  end

  def test_one_in_a_nested_run_sees_its_own_stop_and_its_ensure_runs_on
    Gyre.run do |task|
      steps = []
      outer = task.async do
        Gyre.run do
          sleep
        ensure
          sleep 0.001
          steps << :inner
        end
        steps << :went_on
      ensure
        sleep 0.001
        steps << :outer
      end
      outer.stop.wait
      assert_equal %i[inner outer], steps
      assert_predicate outer, :stopped?
    end
  end

  def test_a_nested_run_in_an_ensure_after_a_stop_gives_its_value
    Gyre.run do |task|
      value = nil
      child = task.async do
        sleep
      ensure
        value = Gyre.run { |own| own.async { sleep }.stop.wait.inspect }
      end
      child.stop.wait
      assert_equal "nil", value
    end
  end
end
