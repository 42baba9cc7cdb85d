# frozen_string_literal: true

# What an unblock gives to a fiber (a lock, an element of a queue) when that fiber is interrupted,
# or out of time, in the same turn: another one that waits for it gets it.
# test/stress/wake_ups_test.rb draws such cases.
require "timeout"

module SchedulerContract
  # Wake-ups that would be lost.
  module Giving
    Interruption = Class.new(StandardError)

    # Runs the block in a fiber, or in one that the fiber resumes, and expects the interruption
    # there.
    def interrupted(scheduler, inner)
      scheduler.spawn do
        assert_raises(Interruption) { inner ? Fiber.new { yield }.resume : yield }
      end
    end

    def test_a_lock_that_comes_to_the_ensure_of_a_killed_fiber_goes_to_the_next_one
      since_ruby "3.3"
      mutex = Thread::Mutex.new
      got = []
      in_fiber do |scheduler|
        mutex.lock
        killed = scheduler.spawn do
          sleep
        ensure
          mutex.synchronize { got << :killed }
        end
        killed.kill
        scheduler.spawn { mutex.synchronize { got << :next } }
        mutex.unlock
      end
      assert_equal [:next], got
    end

    def test_an_item_that_comes_with_an_interruption_in_a_fiber_goes_to_the_next_one = assert_item_goes_on(inner: false)

    def test_an_item_that_comes_with_an_interruption_in_an_inner_fiber_goes_to_the_next_one = assert_item_goes_on(inner: true)

    def test_a_lock_that_comes_with_an_interruption_in_a_fiber_goes_to_the_next_one = assert_lock_goes_on(inner: false)

    def test_a_lock_that_comes_with_an_interruption_in_an_inner_fiber_goes_to_the_next_one = assert_lock_goes_on(inner: true)

    def test_room_that_comes_with_an_interruption_in_a_fiber_goes_to_the_next_one = assert_room_goes_on(inner: false)

    def test_room_that_comes_with_an_interruption_in_an_inner_fiber_goes_to_the_next_one = assert_room_goes_on(inner: true)

    def test_what_no_other_one_waits_for_is_taken_before_the_interruption_in_a_fiber = assert_item_is_taken(inner: false)

    def test_what_no_other_one_waits_for_is_taken_before_the_interruption_in_an_inner_fiber = assert_item_is_taken(inner: true)

    def assert_item_goes_on(inner:)
      queue = Thread::Queue.new
      got = []
      in_fiber do |scheduler|
        first = interrupted(scheduler, inner) { queue.pop }
        scheduler.spawn { got << queue.pop }
        queue.push(:item)
        scheduler.fiber_interrupt(first, Interruption.new)
      end
      assert_equal [:item], got
    end

    def assert_lock_goes_on(inner:)
      mutex = Thread::Mutex.new
      got = []
      in_fiber do |scheduler|
        mutex.lock
        first = interrupted(scheduler, inner) { mutex.synchronize { nil } }
        scheduler.spawn { mutex.synchronize { got << :lock } }
        mutex.unlock
        scheduler.fiber_interrupt(first, Interruption.new)
      end
      assert_equal [:lock], got
    end

    def assert_room_goes_on(inner:)
      queue = Thread::SizedQueue.new(1).push(:first)
      in_fiber do |scheduler|
        first = interrupted(scheduler, inner) { queue.push(:lost) }
        scheduler.spawn { queue.push(:second) }
        assert_equal :first, queue.pop
        scheduler.fiber_interrupt(first, Interruption.new)
      end
      assert_equal :second, queue.pop(true)
    end

    def assert_item_is_taken(inner:)
      queue = Thread::Queue.new
      got = []
      in_fiber do |scheduler|
        first = interrupted(scheduler, inner) { got << queue.pop and sleep }
        queue.push(:item)
        scheduler.fiber_interrupt(first, Interruption.new)
      end
      assert_equal [:item], got
    end

    # The second fiber is woken in the place of the first, and is still the queue's next one.
    def test_two_items_one_of_which_comes_with_an_interruption_go_to_two
      queue = Thread::Queue.new
      got = []
      in_fiber do |scheduler|
        first = interrupted(scheduler, false) { queue.pop }
        2.times { scheduler.spawn { got << queue.pop } }
        queue.push(1)
        scheduler.fiber_interrupt(first, Interruption.new)
        interrupted(scheduler, false) { queue.push(2).then { raise Interruption } } # before the second one runs
      end
      assert_equal [1, 2], got.sort
    end

    # Ruby calls the exception's `exception` when it is raised, and other threads run in that.
    def interrupted_while_given(scheduler, queue)
      calls = 0
      kind = Class.new(Interruption) do
        define_method(:exception) do |*|
          queue.push(:item) if (calls += 1) == 1
          self
        end
      end
      fiber = scheduler.spawn { assert_raises(kind) { yield and sleep } }
      lambda { scheduler.fiber_interrupt(fiber, kind.new) }
    end

    def test_an_item_that_comes_while_the_interruption_is_raised_is_taken_or_stays
      queue = Thread::Queue.new
      got = []
      in_fiber { |scheduler| interrupted_while_given(scheduler, queue) { got << queue.pop }.call }
      assert_equal [:item], queue.empty? ? got : got.push(queue.pop)
    end

    def test_an_item_that_comes_while_the_interruption_is_raised_goes_to_the_next_one
      queue = Thread::Queue.new
      got = []
      in_fiber do |scheduler|
        interrupt = interrupted_while_given(scheduler, queue) { queue.pop }
        scheduler.spawn { got << queue.pop }
        interrupt.call
      end
      assert_equal [:item], got
    end

    # --- late unblocks ---

    def test_an_unblock_for_an_earlier_wait_does_not_end_a_sleep_without_end
      in_fiber do |scheduler|
        sleeper = scheduler.spawn do
          scheduler.unblock(:earlier, Fiber.current)
          assert_raises(Interruption) { sleep }
        end
        scheduler.unblock(:earlier, sleeper)
        sleep 0.002
        scheduler.fiber_interrupt(sleeper, Interruption.new)
      end
    end

    def test_an_unblock_for_an_earlier_wait_does_not_end_a_block_for_something_else
      in_fiber do |scheduler|
        scheduler.unblock(:earlier, Fiber.current)
        refute scheduler.block(:later, 0.001)
      end
    end

    def test_of_several_unblocks_that_come_early_none_is_lost
      in_fiber do |scheduler|
        scheduler.unblock(:now, Fiber.current)
        scheduler.unblock(:earlier, Fiber.current)
        assert scheduler.block(:now, HANG_S)
      end
    end

    # --- what else ends a sleep ---

    # A subclass of Scheduler may have a kernel_sleep of its own, which calls block.
    def test_a_signal_that_comes_before_its_sleep_ends_a_block_for_sleep
      mutex = Mutex.new
      in_fiber do |scheduler|
        scheduler.expect_signal(mutex)
        scheduler.unblock(mutex, Fiber.current)
        assert scheduler.block(:sleep, HANG_S)
        assert scheduler.signalled?
      end
    end

    # As the threads do that have used an IO which a fiber closes (Ruby 3.4).
    def test_an_unblock_for_the_schedulers_own_thread_ends_a_sleep
      in_fiber do |scheduler|
        scheduler.unblock(Thread.current, Fiber.current)
        assert scheduler.block(:sleep, HANG_S)
        sleeper = scheduler.spawn { sleep }
        scheduler.unblock(Thread.current, sleeper)
      end
    end

    # Ruby waits for hidden mutexes, which have no methods: a call of one ends the process.
    def test_fibers_that_wait_for_the_same_autoload_go_on
      since_ruby "3.2"
      Dir.mktmpdir do |folder|
        File.write("#{folder}/slow.rb", "sleep 0.001\nSlowToLoad = 1\n")
        assert_program "[1, 1, 1]\n", <<~RUBY
          autoload :SlowToLoad, #{"#{folder}/slow.rb".dump}
          scheduler = Gyre::Scheduler.new(#{backend.dump})
          Fiber.set_scheduler(scheduler)
          got = []
          3.times { Fiber.schedule { got << SlowToLoad } }
          scheduler.run
          p got
        RUBY
      end
    end
  end
end
