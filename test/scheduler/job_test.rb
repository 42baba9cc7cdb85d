# frozen_string_literal: true

# To which fiber or thread the state of the running code belongs (Gyre::Job).

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("JobTest", backends: GyreTest::Engines::ALL) do
  def test_inner_fibers_have_their_job_also_after_waits
    Gyre.run do |task|
      tasks = Array.new(5) do |number|
        task.async do
          sleep(0.001) # Ruby 3.1 blocks in inner fibers: all tasks begin before one ends
          inner = Enumerator.new { |out| 3.times { sleep(number / 1000.0) && out << Gyre::Job.current } }
          nested = Enumerator.new { |out| out << Enumerator.new { |deep| sleep(0.001) && deep << Gyre::Job.current }.next }
          [Fiber.current, Gyre::Job.current, *Array.new(3) { inner.next }, nested.next].uniq
        end
      end
      jobs = tasks.map(&:wait)
      assert_equal [1] * 5, jobs.map(&:size)
      assert_equal 5, jobs.uniq.size
    end
  end

  # The fiber's maker does not matter, but the fiber that has entered it.
  def test_an_enumerator_that_jobs_share_has_the_job_that_enters_it
    Gyre.run do |task|
      shared = Enumerator.new { |out| loop { out << Gyre::Job.current } }
      3.times { task.async { assert_same Fiber.current, shared.next }.wait }
    end
  end

  def test_children_are_jobs_of_their_own
    Gyre.run do |task|
      owner = Gyre::Job.current
      child = task.async { Gyre::Job.current }.wait
      scheduled = nil
      Fiber.schedule { scheduled = Gyre::Job.current }
      assert_equal 3, [owner, child, scheduled].uniq.size
      assert_same owner, Gyre::Job.current
    end
  end

  def test_outside_of_jobs_it_is_the_thread
    seen = Thread.new do
      before = Gyre::Job.current
      Fiber.set_scheduler(Gyre::Scheduler.new)
      inner = Enumerator.new { |out| sleep(0.001) && out << Gyre::Job.current }.next
      Fiber.schedule { sleep 0.001 }
      sleep 0.001
      [Thread.current, before, inner, Gyre::Job.current].uniq
    end
    assert_equal 1, seen.value.size
    assert_equal 1, Thread.new { [Thread.current, Enumerator.new { |out| out << Gyre::Job.current }.next].uniq.size }.value
  end

  def test_a_job_sees_nothing_of_an_earlier_one_in_its_fiber
    Gyre.run do |task|
      seen = Array.new(3) do |number|
        task.async do
          before = Fiber.current.instance_variable_get(:@state)
          Fiber.current.instance_variable_set(:@state, number)
          before
        end.wait
      end
      assert_equal [nil] * 3, seen
    end
  end
end

class JobEventTest < Minitest::Test
  # Stands for Rails' executor.
  class Executor
    attr_reader :events

    def initialize = @events = 0

    def wrap
      @events += 1
      yield
    end
  end

  def teardown
    Gyre::Job.executor = nil
    super
  end

  def test_an_event_runs_in_the_executor_and_leaves_no_state
    skip "needs the extension" unless Gyre::Loop.native?

    Gyre::Job.executor = executor = Executor.new
    Gyre.run do
      seen = Array.new(2) do
        Gyre::Job.event do
          before = [Thread.current[:user], Fiber.current.instance_variable_get(:@user)]
          Thread.current[:user] = "ann"
          Fiber.current.instance_variable_set(:@user, "ann")
          before
        end
      end
      assert_equal [[nil, nil]] * 2, seen
      assert_raises(KeyError) { Gyre::Job.event { raise KeyError } }
    end
    assert_equal 3, executor.events
  end
end
