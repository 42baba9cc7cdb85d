# frozen_string_literal: true

# The workers of the portable scheduler.
require "test_helper"
require "support/on_portable"

class PortablePoolTest < Minitest::Test
  include GyreTest::OnPortable

  def test_a_worker_that_rests_is_taken_before_a_new_one_is_made
    with_scheduler do |scheduler|
      first = scheduler.spawn { nil }
      assert_equal 1, scheduler.stats[:idle_fibers]
      assert_same first, scheduler.spawn { nil }
      assert_equal 1, scheduler.stats[:idle_fibers]
    end
  end

  def test_no_more_than_a_limit_of_workers_rest
    with_scheduler do |scheduler|
      limit = Gyre::Scheduler::Portable::Pool::IDLE_LIMIT
      (limit + 100).times { scheduler.spawn { scheduler.yield } }
      assert_equal limit + 100, scheduler.stats[:tasks]
      scheduler.run
      assert_equal [0, limit], scheduler.stats.values_at(:tasks, :idle_fibers)
    end
  end

  def test_workers_that_stay_idle_go_although_nothing_else_happens
    with_scheduler do |scheduler|
      kept = Gyre::Scheduler::Portable::Pool::IDLE_KEPT
      (kept + 50).times { scheduler.spawn { scheduler.yield } }
      # Once, unless the machine stands still until this is due together with what trims.
      scheduler.spawn { loop { break if sleep(3 * Gyre::Scheduler::Portable::Pool::TRIM_S) && scheduler.stats[:idle_fibers] <= kept } }
      scheduler.run_until { scheduler.stats[:tasks] == 1 }
      assert_equal [kept + 50, 1], scheduler.stats.values_at(:idle_fibers, :timers)
      scheduler.run
      assert_equal [kept + 1, 0], scheduler.stats.values_at(:idle_fibers, :timers)
    end
  end

  # In a program of its own, as below.
  def test_idle_workers_that_go_are_collected
    skip "on Ruby 3.1 the stacks of fibers that stay refer to fibers that go" if RUBY_VERSION < "3.2"
    output = ruby("--disable-gems", "-e", <<~RUBY)
      ENV["GYRE_BACKEND"] = "select"
      require "gyre"
      burst = ->(task) { Array.new(300) { task.async { sleep 0.05 } }.each(&:wait).clear }
      Gyre.run do |task|
        burst.call(task)
        sleep 0.5 until Fiber.scheduler.stats[:idle_fibers] <= Gyre::Scheduler::Portable::Pool::IDLE_KEPT
        GC.start
        fibers = ObjectSpace.each_object(Fiber).count
        puts fibers < 150 ? "collected" : fibers
      end
    RUBY
    assert_equal "collected\n", output.out, output.err
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

  def test_a_closed_scheduler_that_the_program_keeps_holds_no_fibers
    with_scheduler do |scheduler|
      5.times { scheduler.spawn { scheduler.yield } }
      scheduler.run
      assert_equal 5, scheduler.stats[:idle_fibers]
      scheduler.close
      assert_equal 0, scheduler.stats[:idle_fibers]
    end
  end

  def test_a_worker_with_options_of_its_own_has_one_job
    with_scheduler do |scheduler|
      fiber = scheduler.fiber(blocking: true) { nil }
      refute_predicate fiber, :alive?
      assert_equal 0, scheduler.stats[:idle_fibers]
    end
  end

  def test_an_exception_that_comes_while_a_worker_cleans_up_leaves_no_job_behind
    storm = Class.new(Exception) # rubocop:disable Lint/InheritException
    with_scheduler do |scheduler|
      raiser = TracePoint.new(:c_call) { |event| raiser.disable.then { raise storm } if event.method_id == :keys }
      assert_raises(storm) { raiser.enable { scheduler.spawn { nil } } }
      assert_equal 0, scheduler.stats[:tasks]
    end
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

  def test_an_exception_raised_into_a_resting_worker_does_it_no_harm
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
