# frozen_string_literal: true

# Waiting without descriptors: sleep, Mutex, Queue, ConditionVariable, Thread#join, and block and
# unblock themselves.

module SchedulerContract
  # block, unblock, kernel_sleep.
  module Blocking
    def test_sleeping_fibers_sleep_at_once_and_wake_in_the_order_of_their_times
      order = []
      times = (1..10).to_a # 55 s one after the other
      took = with_scheduler do |scheduler|
        simulation = simulate(scheduler)
        times.reverse_each { |seconds| Fiber.schedule { sleep(seconds).then { order << seconds } } }
        scheduler.run
        simulation.elapsed
      end
      assert_equal times, order
      assert_in_delta 10, took, 0.01
    end

    def test_sleep_returns_the_seconds_as_an_integer
      assert_includes([0, 1], in_fiber { sleep 0.001 }) # 1 when a second of the clock begins meanwhile
      assert_includes([0, 1], in_fiber { sleep Rational(1, 1000) })
    end

    def test_sleep_refuses_an_invalid_duration
      in_fiber do
        assert_raises(ArgumentError) { sleep(-1) }
        assert_raises(TypeError) { sleep("1") }
      end
    end

    def test_an_infinite_sleep_can_be_interrupted
      in_fiber do |scheduler|
        sleeper = scheduler.spawn { assert_raises(IOError) { sleep Float::INFINITY } }
        sleep 0.002
        scheduler.fiber_interrupt(sleeper, IOError.new)
      end
    end

    def test_an_unblock_for_some_earlier_wait_does_not_shorten_a_sleep
      in_fiber do |scheduler|
        scheduler.unblock(:earlier, Fiber.current)
        assert_operator duration_s { sleep 0.02 }, :>=, 0.02
      end
    end

    def test_a_sleep_without_end_ends_when_it_is_unblocked
      in_fiber do |scheduler|
        sleeper = scheduler.spawn { sleep }
        sleep 0.001
        scheduler.unblock(:sleep, sleeper)
      end
    end

    def test_block_returns_true_when_unblocked_and_false_when_the_time_is_over
      in_fiber do |scheduler|
        results = []
        blocked = scheduler.spawn { results << scheduler.block(:test, HANG_S) }
        scheduler.spawn { results << scheduler.block(:test, 0.001) }
        scheduler.unblock(:test, blocked)
        sleep 0.004
        assert_equal [true, false], results
      end
    end

    def test_an_unblock_before_the_block_is_not_lost
      in_fiber do |scheduler|
        scheduler.unblock(:test, Fiber.current)
        assert scheduler.block(:test, HANG_S)
        refute scheduler.block(:test, 0.001), "it counts once"
      end
    end

    def test_a_signal_that_comes_before_the_sleep_of_a_condition_variable_is_not_lost
      in_fiber do
        condition = Thread::ConditionVariable.new
        mutex = Thread::Mutex.new
        mutex.define_singleton_method(:sleep) { |timeout = nil| condition.signal.then { super(timeout) } }
        took = duration_s { mutex.synchronize { condition.wait(mutex, HANG_S) } }
        assert_operator took, :<, HANG_S
      end
    end

    def test_an_unblock_for_a_fiber_that_sleeps_elsewhere_waits_for_its_next_block
      in_fiber do |scheduler|
        result = nil
        with_pipe do |reader, writer|
          fiber = scheduler.spawn { reader.getc.then { result = scheduler.block(:test, HANG_S / 2) } }
          scheduler.unblock(:test, fiber)
          writer.write "x"
          sleep 0.001 while result.nil?
          assert result
        end
      end
    end

    def test_an_unblock_for_an_ended_job_does_not_reach_the_next_one
      in_fiber do |scheduler|
        scheduler.unblock(:test, scheduler.spawn { nil })
        10.times { scheduler.spawn { refute scheduler.block(:test, 0.001) } }
      end
    end

    def test_unblocking_twice_wakes_once
      in_fiber do |scheduler|
        results = []
        fiber = scheduler.spawn { 2.times { results << scheduler.block(:test, 0.002) } }
        2.times { scheduler.unblock(:test, fiber) }
        sleep 0.001 until results.size == 2
        assert_equal [true, false], results
      end
    end

    def test_no_unblock_of_another_thread_is_lost
      in_fiber do |scheduler|
        counts = Array.new(8) { 0 }
        fibers = counts.each_index.map do |index|
          scheduler.spawn { 200.times { scheduler.block(:test).then { counts[index] += 1 } } }
        end
        threads = fibers.map.with_index do |fiber, index|
          Thread.new do
            200.times do |number|
              Thread.pass until counts[index] == number
              scheduler.unblock(:test, fiber)
            end
          end
        end
        threads.each(&:join)
        sleep 0.001 until counts.sum == 1_600
      end
    end

    def test_fibers_share_a_mutex_in_the_order_in_which_they_came
      order = []
      with_scheduler do
        mutex = Thread::Mutex.new
        5.times { |number| Fiber.schedule { mutex.synchronize { sleep(0.001).then { order << number } } } }
      end
      assert_equal (0...5).to_a, order
    end

    def test_a_thread_and_a_fiber_share_a_mutex
      steps = Thread::Queue.new
      in_fiber do
        mutex = Thread::Mutex.new
        held, enough = Array.new(2) { Thread::Queue.new }
        thread = Thread.new { mutex.synchronize { held.push(true).then { enough.pop }.then { steps << :thread } } }
        held.pop
        Fiber.schedule { sleep(0.001).then { steps << :other }.then { enough.push(true) } }
        mutex.synchronize { steps << :fiber }
        thread.join
      end
      assert_equal %i[other thread fiber], Array.new(3) { steps.pop }
    end

    def test_a_mutex_that_is_contended_by_threads_and_fibers_lets_all_of_them_through
      count = 0
      in_fiber do |scheduler|
        mutex = Thread::Mutex.new
        step = -> { 100.times { mutex.synchronize { (value = count).then { Thread.pass }.then { count = value + 1 } } } }
        threads = Array.new(2) { Thread.new(&step) }
        4.times { scheduler.spawn { step.call } }
        threads.each(&:join)
      end
      assert_equal 600, count
    end

    def test_an_interrupted_waiter_for_a_mutex_does_not_keep_it_from_the_next_one
      got = []
      in_fiber(reports: []) do |scheduler|
        mutex = Thread::Mutex.new
        mutex.lock
        first = scheduler.spawn { mutex.synchronize { got << :first } }
        scheduler.spawn { mutex.synchronize { got << :second } }
        mutex.unlock # wakes the first one
        scheduler.fiber_interrupt(first, RuntimeError.new("stop"))
        sleep 0.002
      end
      assert_includes got, :second
    end

    def test_a_thread_feeds_a_queue_to_a_fiber
      numbers = in_fiber do
        queue = Thread::Queue.new
        thread = Thread.new { 50.times { |number| queue.push(number).then { sleep 0.0001 } }.then { queue.close } }
        got = []
        while (number = queue.pop)
          got << number
        end
        thread.join
        got
      end
      assert_equal (0...50).to_a, numbers
    end

    def test_a_fiber_feeds_a_queue_to_a_thread
      in_fiber do
        queue = Thread::Queue.new
        thread = Thread.new { Array.new(10) { queue.pop } }
        10.times { |number| sleep(0.0002).then { queue.push(number) } }
        assert_equal (0...10).to_a, thread.value
      end
    end

    def test_queues_between_threads_and_fibers_lose_nothing
      sums = in_fiber do |scheduler|
        queue = Thread::Queue.new
        sums = Array.new(4) { 0 }
        sums.each_index { |index| scheduler.spawn { 250.times { sums[index] += queue.pop } } }
        Array.new(4) { Thread.new { 250.times { queue.push(1).then { Thread.pass } } } }.each(&:join)
        sleep 0.001 until sums.sum == 1_000
        sums
      end
      assert_equal [250] * 4, sums
    end

    def test_a_queue_with_a_timeout_gives_up
      since_ruby "3.2"
      in_fiber do
        queue = Thread::Queue.new
        assert_nil queue.pop(timeout: 0.002)
        Fiber.schedule { sleep(0.001).then { queue.push(:late) } }
        assert_equal :late, queue.pop(timeout: HANG_S)
      end
    end

    def test_a_sized_queue_holds_its_writer_back
      steps = []
      with_scheduler do
        queue = Thread::SizedQueue.new(1)
        Fiber.schedule { 3.times { |number| queue.push(number).then { steps << "push #{number}" } } }
        Fiber.schedule { 3.times { |number| sleep(0.001).then { steps << "pop #{number}" if queue.pop == number } } }
      end
      assert_equal ["push 0", "pop 0", "push 1", "pop 1", "push 2", "pop 2"].sort, steps.sort
      assert_operator steps.index("pop 0"), :<, steps.index("push 2")
    end

    def test_a_condition_variable_wakes_a_fiber_from_a_fiber_and_from_a_thread
      in_fiber do
        mutex = Thread::Mutex.new
        condition = Thread::ConditionVariable.new
        [->(work) { Fiber.schedule(&work) }, ->(work) { Thread.new(&work) }].each do |start|
          ready = false
          start.call(-> { sleep(0.001).then { mutex.synchronize { ready = true and condition.signal } } })
          mutex.synchronize { condition.wait(mutex) until ready }
          assert ready
        end
      end
    end

    def test_a_condition_variable_with_a_timeout_gives_up_and_is_woken_before
      in_fiber do
        mutex = Thread::Mutex.new
        condition = Thread::ConditionVariable.new
        took = duration_s { mutex.synchronize { condition.wait(mutex, 0.003) } }
        assert_operator took, :>=, 0.003
        Fiber.schedule { sleep(0.001).then { condition.signal } }
        took = duration_s { mutex.synchronize { condition.wait(mutex, HANG_S) } }
        assert_operator took, :<, HANG_S
      end
    end

    def test_fibers_wait_for_threads_at_once
      begun = Thread::Queue.new
      values = []
      with_scheduler do # each thread waits for all the others
        8.times do |number|
          Fiber.schedule { values << Thread.new { begun.push(number).then { sleep 0.001 until begun.size == 8 }.then { number } }.value }
        end
      end
      assert_equal (0...8).to_a, values.sort
    end

    def test_joining_a_thread_with_a_limit_gives_up
      since_ruby "3.2" # before, it joins again and again
      in_fiber do
        gate = Thread::Queue.new
        thread = Thread.new { gate.pop }
        assert_nil thread.join(0.002)
        gate.push(true)
        assert_same thread, thread.join(HANG_S)
      end
    end

    def test_a_thread_that_fails_raises_in_the_fiber_that_joins_it
      in_fiber do
        thread = Thread.new { sleep(0.001).then { raise IOError, "in the thread" } }
        thread.report_on_exception = false
        assert_raises(IOError) { thread.join }
      end
    end

    def test_a_monitor_belongs_to_one_fiber_at_a_time
      require "monitor"
      order = []
      with_scheduler do
        monitor = Monitor.new
        2.times do |number|
          Fiber.schedule { monitor.synchronize { monitor.synchronize { order << number }.then { sleep 0.001 }.then { order << number } } }
        end
      end
      assert_equal [0, 0, 1, 1], order
    end
  end
end
