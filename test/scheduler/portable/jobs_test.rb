# frozen_string_literal: true

# Fibers of the portable scheduler and their jobs.
require "test_helper"
require "support/on_portable"

class PortableJobsTest < Minitest::Test
  include GyreTest::OnPortable

  def test_a_fiber_ends_with_its_job
    with_scheduler do |scheduler|
      fibers = Array.new(3) { scheduler.spawn { scheduler.yield } }
      assert_equal [3, 0], scheduler.stats.values_at(:tasks, :idle_fibers)
      scheduler.run
      assert_equal 0, scheduler.stats[:tasks]
      assert fibers.none?(&:alive?)
      refute_predicate scheduler.fiber(blocking: true) { nil }, :alive?
    end
  end

  # Ended fibers leave their stacks to the collector.
  def test_many_jobs_one_after_the_other_do_not_use_up_the_stacks
    with_scheduler do |scheduler|
      assert_equal 50_000, (50_000.times.count { scheduler.spawn { [] } })
    end
  end

  # In a program of its own: the suite's stacks hold on to this and that.
  def test_what_a_thread_runs_one_after_the_other_leaves_no_fibers
    output = ruby("--disable-gems", "-e", <<~RUBY)
      ENV["GYRE_BACKEND"] = "select"
      require "gyre"
      40.times { Gyre.run { |task| 3.times { task.async { sleep 0.0001 } } } }
      GC.start
      fibers = ObjectSpace.each_object(Fiber).count
      puts fibers < 20 ? "collected" : fibers
    RUBY
    assert_equal "collected\n", output.out, output.err
  end

  def test_an_exception_for_the_thread_that_comes_before_a_job_has_begun_leaves_the_job_whole
    with_scheduler do |scheduler|
      jobs = []
      raiser = TracePoint.new(:call) do |event|
        raiser.disable.then { raise Interrupt, "storm" } if event.method_id == :started && event.defined_class == Gyre::Scheduler::Portable::Fibers
      end
      begin
        raiser.enable { scheduler.spawn { scheduler.yield.then { jobs << :first } } }
      rescue Interrupt
        nil # it leaves through the driver, or through spawn
      end
      scheduler.spawn { scheduler.yield.then { jobs << :second } } # in a fiber of its own
      begin
        scheduler.run
      rescue Interrupt
        retry
      end
      assert_equal %i[first second], jobs
    end
  end

  def test_an_exception_raised_into_an_ended_fiber_harms_no_other_job
    with_scheduler do |scheduler|
      fiber = scheduler.spawn { nil }
      Fiber.new { assert_raises(FiberError) { fiber.raise(IOError, "too late") } }.resume
      done = false
      5.times { scheduler.spawn { scheduler.yield.then { done = true } } }
      scheduler.run
      assert done
    end
  end
end
