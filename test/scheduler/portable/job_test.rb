# frozen_string_literal: true

# The portable scheduler's jobs.
require "test_helper"
require "support/on_portable"

class PortableJobTest < Minitest::Test
  include GyreTest::OnPortable

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

  def test_a_fiber_may_be_asked_to_block_and_ends_with_its_job
    with_scheduler do |scheduler|
      fiber = scheduler.fiber(blocking: true) { nil }
      refute_predicate fiber, :alive?
    end
  end

  # There each end would continue in the forking fiber, which Ruby takes for the root fiber.
  def test_fibers_that_end_in_a_forked_child_after_the_forking_one_end_no_program
    output = ruby("--disable-gems", "-e", <<~RUBY)
      ENV["GYRE_BACKEND"] = "select"
      require "gyre"
      Gyre.run do |task|
        task.async do |forker|
          pid = fork
          Process.wait(pid) && raise("fails in the parent") if pid
          3.times { |index| forker.async { sleep(0.002 * index) } }
        end
      end
      Gyre.run { |task| 2.times { task.async { sleep 0.001 } } }
      puts "over"
    RUBY
    assert_equal "over\nover\n", output.out, output.err
    assert_includes output.err, "fails in the parent"
  end

  def test_an_exception_that_comes_at_a_jobs_end_leaves_no_job_behind
    storm = Class.new(Exception) # rubocop:disable Lint/InheritException
    with_scheduler do |scheduler|
      raiser = TracePoint.new(:return) { |event| raiser.disable.then { raise storm } if event.method_id == :finished }
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

  def test_fibers_that_the_program_keeps_have_no_stacks_after_their_jobs
    skip "before 4.0 the collector takes them" if Gyre::Scheduler::Portable::Fibers::STACKS_STAY
    skip "no /proc" unless File.exist?("/proc/self/maps")
    kept = []
    with_scheduler do |scheduler|
      scheduler.spawn { scheduler.yield.then { 2_000.times { kept << scheduler.fiber { nil } << scheduler.spawn { nil } } } }
      scheduler.run
    end
    assert_equal 4_000, kept.size
    assert_operator File.foreach("/proc/self/maps").count, :<, 4_000
  end

  def test_ended_jobs_leave_no_stacks_behind_in_a_forked_child
    skip "no /proc" unless File.exist?("/proc/self/maps")
    with_scheduler do |scheduler|
      scheduler.spawn do
        pid = fork do
          10_000.times { scheduler.spawn { nil } }
          exit!(File.foreach("/proc/self/maps").count < 18_000)
        end
        assert_predicate Process::Status.wait(pid), :success?
      end
      scheduler.run
    end
  end
end
