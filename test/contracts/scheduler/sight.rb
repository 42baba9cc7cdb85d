# frozen_string_literal: true

# What a scheduler shows of itself: which fiber waits for what, what can be found out in another
# fiber, and figures.

module SchedulerContract
  # Waits, questions, figures.
  module Sight
    def test_a_wait_shows_what_it_is_for_and_how_long_still
      with_pipe do |reader, writer|
        waits = in_fiber do |scheduler|
          mutex = Mutex.new
          queue = Thread::Queue.new
          mutex.lock
          fibers = [-> { mutex.synchronize { nil } }, -> { queue.pop }, -> { sleep 100 }, -> { reader.wait_readable(50) }, -> { sleep }]
                   .map { |job| scheduler.spawn(job) }
          scheduler.waits.select { |wait| fibers.include?(wait.fiber) }.sort_by { |wait| fibers.index(wait.fiber) }.tap do |all|
            assert_equal [mutex, queue, :sleep, reader, :sleep], all.map(&:blocker)
            mutex.unlock
            queue.push(nil)
            writer.write("x")
            [fibers[2], fibers[4]].each { |fiber| scheduler.unblock(:sleep, fiber) }
          end
        end
        assert_equal [:waiting], waits.map(&:state).uniq
        assert_equal [[nil, 0], [nil, 0], [nil, 0], [reader.fileno, IO::READABLE], [nil, 0]], waits.map { |wait| [wait.fd, wait.events] }
        assert_equal [nil, nil, Float, Float, nil], (waits.map { |wait| wait.left_s&.class })
        assert_includes 70..100, waits[2].left_s
        assert_includes 20..50, waits[3].left_s
      end
    end

    def test_a_fiber_that_lets_others_run_is_ready
      in_fiber do |scheduler|
        fiber = scheduler.spawn { scheduler.yield }
        assert_equal [[:ready, nil]], scheduler.waits.select { |wait| wait.fiber == fiber }.map { |wait| [wait.state, wait.blocker] }
      end
    end

    def test_waits_can_be_chosen_by_what_they_are_for
      in_fiber do |scheduler|
        mutex = Mutex.new.tap(&:lock)
        fiber = scheduler.spawn { mutex.synchronize { nil } }
        scheduler.spawn { scheduler.yield }
        assert_equal [fiber], scheduler.waits([String, Thread::Mutex]).map(&:fiber)
        assert_empty scheduler.waits([String])
        mutex.unlock
      end
    end

    def test_another_thread_may_look_at_the_waits
      in_fiber do |scheduler|
        queue = Thread::Queue.new
        scheduler.spawn { queue.pop }
        assert_includes Thread.new { scheduler.waits.map(&:blocker) }.value, queue
        queue.push(nil)
      end
    end

    def test_a_question_is_answered_in_the_fiber_that_is_asked_and_its_wait_goes_on
      in_fiber do |scheduler|
        mutex = Mutex.new
        queue = Thread::Queue.new
        owner = scheduler.spawn { mutex.synchronize { queue.pop } }
        other = scheduler.spawn { queue.pop }
        assert_equal [true, false], [owner, other].map { |fiber| scheduler.ask(fiber) { mutex.owned? } }
        assert_equal owner, scheduler.ask(owner) { Fiber.current }
        assert_equal Fiber.current, scheduler.ask(Fiber.current) { Fiber.current }
        assert mutex.locked?
        assert_equal 2, queue.num_waiting
        2.times { queue.push(nil) }
      end
    end

    def test_the_driver_can_be_asked
      with_scheduler do |scheduler|
        driver = Fiber.current
        asked = nil
        scheduler.spawn do
          scheduler.yield # the driver goes on, and comes to drive
          asked = scheduler.ask(driver) { Fiber.current }
        end
        scheduler.run
        assert_equal driver, asked
      end
    end

    def test_a_fiber_that_does_not_wait_here_is_not_entered
      in_fiber do |scheduler|
        assert_nil(scheduler.ask(Fiber.new { flunk }) { flunk })
      end
    end

    def test_what_a_question_raises_is_raised_in_the_asking_fiber
      in_fiber do |scheduler|
        queue = Thread::Queue.new
        popped = nil
        fiber = scheduler.spawn { popped = queue.pop }
        assert_equal "why", assert_raises(RuntimeError) { scheduler.ask(fiber) { raise "why" } }.message
        assert_raises(Interrupt) { scheduler.ask(fiber) { raise Interrupt } }
        queue.push(7)
        scheduler.yield
        assert_equal 7, popped
      end
    end

    def test_figures_count_what_is_there
      with_pipe do |reader, writer|
        in_fiber do |scheduler|
          before = scheduler.stats
          scheduler.spawn { reader.wait_readable }
          scheduler.spawn { sleep 0.001 }
          stats = scheduler.stats
          assert_equal [1, 1, 2], (%i[descriptors timers tasks].map { |name| stats[name] - before[name] })
          sleep 0.002
          writer.write("x")
          scheduler.yield until scheduler.stats[:descriptors].zero?
          stats = scheduler.stats
          %i[turns events].each { |name| assert_operator stats[name], :>, before[name], name }
          assert_equal backend == "select" ? 0 : 2, stats[:idle_fibers] # the portable engine has no pool
          sleep 0.001 while scheduler.stats[:waits] == before[:waits] # a loop that comes late for its timers has not waited
        end
      end
    end

    def test_lag_is_what_the_others_had_to_wait_for_a_computing_one
      skip "the portable engine has no lag figures" if backend == "select"
      in_fiber do |scheduler|
        2.times do
          start = now
          nil while now - start < 0.02
          scheduler.yield
        end
        sleep 0.001
        stats = scheduler.stats
        assert_operator stats[:lag_max_s], :>, 0.02
        lags = stats.values_at(:lag_p50_s, :lag_p90_s, :lag_p99_s, :lag_max_s)
        assert_equal lags.sort, lags
      end
    end

    def test_a_wakeup_from_another_thread_is_counted
      in_fiber do |scheduler|
        queue = Thread::Queue.new
        before = scheduler.stats[:wakeups]
        thread = Thread.new { Thread.pass until queue.num_waiting == 1 && scheduler.pulse.nil? && queue.push(nil) }
        queue.pop
        thread.join
        assert_operator scheduler.stats[:wakeups], :>, before
      end
    end

    def test_the_pulse_changes_with_each_switch_and_stands_still_without_one
      in_fiber do |scheduler|
        pulse = scheduler.pulse
        refute_nil pulse
        assert_equal pulse, scheduler.pulse
        scheduler.yield
        refute_equal pulse, scheduler.pulse
      end
    end
  end
end
