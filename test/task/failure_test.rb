# frozen_string_literal: true

# An unawaited exception: reported once, with the task's name and trace; an awaited one: not at all.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("TaskFailureTest") do
  def reported(&block)
    capture { Gyre.run(&block) }.last
  end

  def test_an_unawaited_failure_is_reported_with_name_and_trace
    line = __LINE__ + 1
    said = reported { |task| task.async("fetch prices") { raise KeyError, "no such shop" } }
    assert_match(/unhandled in task "fetch prices": #{Regexp.escape(__FILE__)}:#{line}:.*no such shop \(KeyError\)/, said)
    assert_equal 1, said.scan("no such shop").size
  end

  def test_a_task_without_a_name_is_reported_with_its_place
    said = reported { |task| task.async { raise "x" } }
    assert_match(/unhandled in task at #{Regexp.escape(__FILE__)}:#{__LINE__ - 1}: /, said)
  end

  def test_a_failure_awaited_in_time_is_not_reported
    said = reported do |task|
      broken = task.async { sleep(0.001) && raise("x") }
      assert_raises(RuntimeError) { broken.wait }
    end
    assert_equal "", said
  end

  def test_a_failure_awaited_long_afterwards_is_not_reported
    said = reported do |task|
      broken = task.async { raise "x" }
      slow = task.async { sleep 0.03 }
      slow.wait
      assert_raises(RuntimeError) { broken.wait }
    end
    assert_equal "", said
  end

  def test_one_whose_result_was_looked_at_is_not_reported
    said = reported { |task| assert_equal "x", task.async { raise "x" }.result.message }
    assert_equal "", said
  end

  def test_each_of_several_is_reported_once
    said = reported { |task| 3.times { |index| task.async("number #{index}") { sleep(0.001) && raise("error #{index}") } } }
    assert_equal ["error 0", "error 1", "error 2"], said.scan(/error \d/).sort
  end

  def test_it_is_reported_when_its_parent_is_over_and_not_later
    said_before_the_end = nil
    _, said = capture do
      Gyre.run do |task|
        task.async("group") { |group| group.async("member") { raise "x" } }.wait
        said_before_the_end = $stderr.string.dup
        sleep 0.01
      end
    end
    assert_match(/task "member"/, said_before_the_end)
    assert_equal said_before_the_end, said
  end

  def test_it_is_reported_beside_an_exception_that_ends_the_run
    _, said = capture do
      assert_raises(ArgumentError) do
        Gyre.run do |task|
          task.async("child") { raise "in the child" }
          raise ArgumentError, "in the root"
        end
      end
    end
    assert_match(/in the child/, said)
    refute_match(/in the root/, said)
  end

  def test_it_is_reported_when_the_run_is_left_by_exit
    _, said = capture do
      assert_raises(SystemExit) do
        Gyre.run do |task|
          task.async("child") { raise "in the child" }
          exit 1
        end
      end
    end
    assert_equal 1, said.scan("in the child").size
  end

  def test_a_root_that_cannot_clean_up_after_an_exit_is_reported
    _, said = capture do
      assert_raises(SystemExit) do
        Gyre.run do |task|
          task.async { sleep(0.01) && exit(1) }
          begin
            sleep
          ensure
            raise "cannot clean up"
          end
        end
      end
    end
    assert_match(/unhandled in task "main": .*cannot clean up/, said)
  end

  def test_it_is_reported_when_the_only_waiter_ran_out_of_time_first
    said = reported do |task|
      gate = Gyre::Queue.new
      broken = task.async("late") { gate.pop && raise("too late") }
      assert_raises(Gyre::TimeoutError) { task.with_timeout(0.01) { broken.wait } }
      gate.push(true)
    end
    assert_match(/task "late".*too late/, said)
  end

  def test_it_is_either_raised_or_reported_when_a_waiter_is_stopped_as_the_task_fails
    100.times do
      raised = 0
      said = reported do |task|
        waiter = nil
        broken = task.async do
          sleep 0.0001
          waiter.stop
          raise "both at once"
        end
        waiter = task.async do
          broken.wait
        rescue RuntimeError
          raised += 1
        end
        waiter.wait
      end
      assert_equal 1, raised + said.scan("both at once").size
    end
  end

  def test_a_child_that_fails_leaves_its_siblings_and_its_parent_alone
    value = nil
    said = reported do |task|
      task.async { raise "x" }
      task.async { sleep(0.01) && value = :sibling }
    end
    assert_equal :sibling, value
    assert_match(/x \(RuntimeError\)/, said)
  end

  def test_an_exception_other_than_a_standard_error_is_not_lost_either
    said = reported { |task| task.async("child") { raise NotImplementedError, "not yet" } }
    assert_match(/task "child".*not yet/, said)
  end

  def test_a_stop_is_not_a_failure
    assert_equal "", reported { |task| task.async { sleep }.stop }
  end

  def test_the_report_goes_to_the_scheduler
    heard = []
    Gyre.run do |task|
      Fiber.scheduler.define_singleton_method(:report) { |error, whose| heard << [error.message, whose.to_s] }
      task.async("child") { raise "x" }
    end
    assert_equal [["x", 'task "child"']], heard
  end
end
