# frozen_string_literal: true

# The tasks and timers of Action Cable's server in fibers of a loop.
require "test_helper"
require "gyre"
require "gyre/http/thread_calls"
require "gyre/web/frameworks/cable/event_loop"

class CableEventLoopTest < Minitest::Test
  def setup
    super
    @errors = []
    @loop = Gyre::Web::Cable::EventLoop.new { |error| @errors << error.message }
  end

  def test_a_task_runs_at_once_until_its_first_wait
    steps = []
    in_a_loop do
      @loop.post { steps << :begins && sleep(0.001) && steps << :ends }
      steps << :goes_on
    end
    assert_equal %i[begins goes_on ends], steps
  end

  def test_an_error_is_reported_and_ends_its_task_only
    in_a_loop do |task|
      @loop.post { raise "on purpose" }
      @loop.post(-> { raise IOError, "too" })
      task.async { sleep 0.001 }.wait
    end
    assert_equal ["on purpose", "too"], @errors
  end

  def test_without_a_loop_a_task_runs_where_it_is
    ran = nil
    @loop.post { ran = Thread.current }
    assert_same Thread.current, ran
  end

  def test_a_timer_waits_for_the_loop_of_the_first_cable
    ticks = Thread::Queue.new
    timer = @loop.timer(0.001) { ticks << true }
    cable = Struct.new(:thread_calls).new
    in_a_loop do |task|
      before = Fiber.scheduler.waits.size
      2.times { @loop.adopt(cable) }
      assert_equal before + 1, Fiber.scheduler.waits.size
      task.async { 2.times { assert ticks.pop } }.wait
      timer.shutdown
    end
  end

  def test_the_newest_cables_loop_gets_the_tasks_of_other_loops
    first, second = [], []
    [first, second].each do |jobs|
      calls = Struct.new(:jobs) { def post(job) = jobs << job }.new(jobs)
      in_a_loop { @loop.adopt(Struct.new(:thread_calls).new(calls)) }
      in_a_loop { @loop.post { raise "in another loop" } }
    end
    assert_equal [1, 1], [first, second].map(&:size)
    assert_empty @errors
  end

  def test_timers_of_one_interval_share_a_fiber_and_keep_their_order
    ticks = []
    in_a_loop do |task|
      before = Fiber.scheduler.waits.size
      timers = Array.new(50) { |number| @loop.timer(0.01) { ticks << number } }
      assert_equal before + 1, Fiber.scheduler.waits.size
      task.async { sleep 0.001 until ticks.size >= 100 }.wait
      timers.each(&:shutdown)
    end
    assert_equal (0...50).to_a * 2, ticks.first(100)
  end

  def test_a_timer_ends_and_others_go_on
    ticks = []
    in_a_loop do |task|
      timers = %i[ends stays].to_h { |name| [name, @loop.timer(0.002) { ticks << name }] }
      task.async { sleep 0.001 until ticks.include?(:ends) }.wait
      timers[:ends].shutdown
      from = ticks.size
      task.async { sleep 0.001 until ticks.size > from + 3 }.wait
      assert_equal [:stays], ticks.drop(from).uniq
      assert_nil timers[:ends].task # which may hold a cable
      timers[:stays].shutdown
    end
  end

  private

  def in_a_loop(&block) = Gyre.run(&block)
end
