# frozen_string_literal: true

# The loop as a whole: what drives it, when it ends, what leaves it, what it shows of itself.

module SchedulerContract
  # run, run_until, wakeup, close, and exceptions that leave through them.
  module Running
    def test_run_ends_when_nothing_is_left_and_returns_the_scheduler
      with_scheduler do |scheduler|
        assert_same scheduler, scheduler.run
        done = false
        scheduler.spawn { sleep(0.001).then { done = true } }
        assert_same scheduler, scheduler.run
        assert done
      end
    end

    def test_run_in_a_task_or_below_a_fiber_says_that_it_cannot_wait_for_itself
      in_fiber do |scheduler|
        Fiber.new { assert_raises(Gyre::Error) { scheduler.run } }.resume
        Gyre.run do
          error = assert_raises(Gyre::Error) { scheduler.run }
          assert_match(/waits for the end of all fibers.*Task#wait/, error.message)
        end
      end
    end

    def test_an_exception_that_ends_its_thread_does_not_wait_for_fibers
      skip "Ruby 3.1 does not close the scheduler of a thread that an exception ends" if RUBY_VERSION < "3.2"
      cleaned = false
      thread = Thread.new do
        Thread.current.report_on_exception = false
        Fiber.set_scheduler(scheduler = collecting_scheduler([]))
        scheduler.spawn do
          scheduler.block(:test)
        ensure
          cleaned = true
        end
        raise "the thread's own"
      end
      assert_equal "the thread's own", assert_raises(RuntimeError) { thread.join(HANG_S) }.message
      assert cleaned
    end

    def test_run_until_ends_when_its_block_is_true_and_leaves_the_rest_for_later
      with_scheduler do |scheduler|
        steps = []
        scheduler.spawn { 3.times { |number| sleep(0.002).then { steps << number } } }
        assert_same scheduler, scheduler.run_until { steps.size == 2 }
        assert_equal [0, 1], steps
        scheduler.run
        assert_equal [0, 1, 2], steps
      end
    end

    def test_run_until_sees_what_a_ready_fiber_changed_without_waiting_for_anything
      with_scheduler do |scheduler|
        done = false
        scheduler.spawn { scheduler.yield.then { done = true } }
        scheduler.run_until { done }
        assert done
      end
    end

    def test_wakeup_from_another_thread_ends_the_wait_of_run_until
      with_scheduler do |scheduler|
        done = false
        Thread.new { sleep(0.005).then { done = true }.then { scheduler.wakeup } }
        scheduler.run_until { done }
        assert done
      end
    end

    def test_wakeup_before_the_wait_is_not_lost
      with_scheduler do |scheduler|
        20.times do
          turns = scheduler.stats[:turns]
          scheduler.wakeup
          scheduler.run_until { scheduler.stats[:turns] > turns }
        end
      end
    end

    def test_wakeup_in_a_trap_handler_ends_the_wait
      run_scheduler do |scheduler|
        done = false
        with_trap("USR1", proc { done = true and scheduler.wakeup }) do
          scheduler.spawn { sleep(0.002).then { Process.kill(:USR1, Process.pid) } }
          scheduler.run_until { done }
        end
        assert done
      end
    end

    def test_a_queue_filled_in_a_trap_handler_wakes_its_fiber
      run_scheduler do |scheduler|
        queue = Thread::Queue.new
        got = nil
        with_trap("USR1", proc { queue.push(:signal) }) do
          scheduler.spawn { got = queue.pop }
          scheduler.spawn { sleep(0.002).then { Process.kill(:USR1, Process.pid) } }
          scheduler.run
        end
        assert_equal :signal, got
      end
    end

    def test_loop_running_is_true_only_while_it_is_driven
      with_scheduler do |scheduler|
        refute_predicate scheduler, :loop_running?
        during = nil
        scheduler.spawn { sleep(0.001).then { during = scheduler.loop_running? } }
        scheduler.run
        assert during
        refute_predicate scheduler, :loop_running?
      end
    end

    def test_a_fiber_may_run_the_loop_itself
      steps = []
      in_fiber do |scheduler|
        scheduler.spawn { sleep(0.002).then { steps << :other } }
        scheduler.run_until { steps.any? }
        steps << :runner
        sleep 0.001
        steps << :end
      end
      assert_equal %i[other runner end], steps
    end

    def test_several_may_run_the_loop_at_once
      order = []
      with_scheduler do |scheduler|
        stage = 0
        3.downto(1) { |wanted| scheduler.spawn { scheduler.run_until { stage >= wanted }.then { order << wanted } } }
        scheduler.spawn { scheduler.run.then { order << :nothing_left } }
        scheduler.spawn { 3.times { sleep(0.001).then { stage += 1 } } }
        scheduler.run
        order << :run
      end
      assert_equal [1, 2, 3], order.first(3)
      assert_equal %i[nothing_left run], order.drop(3).sort
    end

    def test_the_scheduler_names_its_backend
      with_scheduler { |scheduler| assert_equal backend, scheduler.backend }
    end

    # A machine that stands still until the timers are due needs no wait for them, but one for the
    # byte, which comes when the scheduler's thread sleeps.
    def test_stats_count_turns_live_fibers_and_timers
      with_pipe do |reader, writer|
        with_scheduler do |scheduler|
          3.times { scheduler.spawn { sleep 0.001 } }
          scheduler.spawn { reader.readpartial(1) }
          before = scheduler.stats
          assert_equal [4, 3], before.values_at(:tasks, :timers)
          thread = Thread.current
          late = Thread.new { (Thread.pass until thread.stop?).then { writer.write("x") } }
          scheduler.run
          late.join
          after = scheduler.stats
          assert_equal [0, 0], after.values_at(:tasks, :timers)
          assert_operator after[:turns], :>, before[:turns]
        end
      end
    end

    def test_the_end_of_the_thread_runs_what_is_left_and_closes
      done = false
      scheduler = nil
      Thread.new do
        Fiber.set_scheduler(scheduler = Gyre::Scheduler.new(backend))
        Fiber.schedule { sleep(0.002).then { done = true } }
      end.join
      assert done
      assert_predicate scheduler, :closed?
    end

    def test_an_exception_that_ends_the_thread_outlives_the_closing
      since_ruby "3.2" # before, Ruby closes no scheduler then
      thread = Thread.new do
        Thread.current.report_on_exception = false
        Fiber.set_scheduler(Gyre::Scheduler.new(backend))
        Fiber.schedule { [1].each { sleep(0.002).then { break } } }
        raise IOError, "of the thread"
      end
      assert_equal "of the thread", assert_raises(IOError) { thread.join }.message
    end

    def test_taking_the_scheduler_off_the_thread_runs_what_is_left_and_closes
      with_scheduler do |scheduler|
        done = false
        scheduler.spawn { sleep(0.002).then { done = true } }
        Fiber.set_scheduler(nil)
        assert done
        assert_predicate scheduler, :closed?
      end
    end

    def test_closing_twice_is_harmless_and_a_closed_scheduler_refuses_work
      scheduler = Gyre::Scheduler.new(backend)
      refute_predicate scheduler, :closed?
      2.times { scheduler.close }
      assert_predicate scheduler, :closed?
      assert_raises(RuntimeError) { scheduler.spawn { nil } }
      assert_raises(RuntimeError) { scheduler.run }
      scheduler.wakeup
      scheduler.unblock(:nothing, Fiber.current)
    end

    def test_another_thread_cannot_close_the_scheduler_of_one_that_waits_on_it
      begun = Thread::Queue.new
      thread = Thread.new do
        with_scheduler { |scheduler| in_turn(scheduler, begun) }
      end
      scheduler, release = begun.pop
      assert_raises(ThreadError) { scheduler.close }
      refute_predicate scheduler, :closed?
      release << :go
      assert_equal :go, thread.value
    end

    def test_two_threads_each_with_a_scheduler_do_not_disturb_each_other
      results = Array.new(2) do |index|
        Thread.new { in_fiber { 20.times.map { |number| sleep(0.0005).then { number + index } } } }
      end.map(&:value)
      assert_equal [(0...20).to_a, (1..20).to_a], results
    end

    def test_a_subclass_of_the_engine_makes_itself
      engine = with_scheduler(&:class)
      own = Class.new(engine).new
      assert_kind_of engine, own
      refute_equal engine, own.class
      own.close
    end

    def test_an_exception_that_a_fiber_lets_out_is_reported_and_the_others_go_on
      reports = []
      done = false
      errors = [RuntimeError, NotImplementedError, NoMemoryError, Class.new(Exception)] # rubocop:disable Lint/InheritException -- no StandardError either
      with_scheduler(reports: reports) do |scheduler|
        errors.each { |error| scheduler.spawn { sleep(0.001).then { raise error, "let out" } } }
        scheduler.spawn { throw :nowhere }
        scheduler.spawn { sleep(0.002).then { done = true } }
      end
      assert_equal [UncaughtThrowError, *errors], reports.map(&:class)
      assert done
    end

    def test_report_names_the_exception_and_its_origin_in_one_block_on_standard_error
      scheduler = Gyre::Scheduler.new(backend)
      _, err = capture { scheduler.report(RuntimeError.new("one\ntwo"), Fiber.current) }
      assert_match(/\Agyre: unhandled in .*one.*\n(?:.*\n)*.*two/, err)
      scheduler.close
    end

    def test_a_report_that_fails_itself_stops_no_fiber
      done = false
      broken = Object.new
      def broken.<<(_error)
        raise "no"
      end
      with_scheduler(reports: broken) do |scheduler|
        scheduler.spawn { raise "first" }
        scheduler.spawn { sleep(0.001).then { done = true } }
      end
      assert done
    end

    def test_exit_in_a_fiber_leaves_through_run_and_the_rest_can_be_run_later
      done = false
      with_scheduler do |scheduler|
        scheduler.spawn { sleep(0.001).then { exit 3 } }
        scheduler.spawn { sleep(0.003).then { done = true } }
        error = assert_raises(SystemExit) { scheduler.run }
        assert_equal 3, error.status
        refute done
        scheduler.run
      end
      assert done
    end

    def test_exit_before_the_first_wait_leaves_through_spawn_when_no_fiber_drives
      with_scheduler do |scheduler|
        assert_raises(SystemExit) { scheduler.spawn { exit }.then { scheduler.run } }
      end
    end

    private

    # Tells of a wait, and what it was given.
    def in_turn(scheduler, begun)
      release = Thread::Queue.new
      got = nil
      scheduler.spawn { got = release.pop }
      begun << [scheduler, release]
      scheduler.run
      got
    end

    def with_trap(signal, handler)
      before = Signal.trap(signal, &handler)
      yield
    ensure
      Signal.trap(signal, before)
    end
  end
end
