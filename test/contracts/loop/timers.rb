# frozen_string_literal: true

# watch_timer.
module LoopContract
  # What happens in time.
  module Timers
    def test_a_timer_comes_once_and_not_too_early
      loop = new_loop
      took_s = duration_s do
        loop.watch_timer(:timer, 0.05, 0)
        assert_equal :timer, loop.next_event
      end
      assert_operator took_s, :>=, 0.049
      refute loop.watching?(:timer)
      loop.signal
      assert_nil loop.next_event
    end

    def test_a_recurring_timer_comes_again
      loop = new_loop
      took_s = duration_s do
        loop.watch_timer(:timer, 0.01, 0.03)
        assert_equal %i[timer timer timer], events(loop, 3)
      end
      assert_operator took_s, :>=, 0.069
      loop.unwatch(:timer)
      loop.signal
      assert_nil loop.next_event
    end

    def test_the_interval_may_be_a_keyword
      loop = new_loop
      loop.watch_timer(:timer, 0, interval: 0.001)
      assert_equal %i[timer timer], events(loop, 2)
    end

    def test_a_recurring_timer_that_is_late_comes_once_for_all_that_it_missed
      loop = new_loop
      loop.watch_timer(:timer, 0.01, 0.01)
      assert_equal :timer, loop.next_event
      sleep 0.1
      took_s = duration_s { assert_equal [:timer] * 6, Array.new(6) { loop.next_event } }
      assert_operator took_s, :>, 0.035, "a burst"
    end

    def test_timers_come_in_the_order_of_their_times
      loop = new_loop
      loop.watch_timer(:latest, 3600, 0)
      loop.watch_timer(:early, 0.01, 0)
      loop.watch_timer(:later, 0.03, nil) # set after that one, so due after it however long this machine takes
      assert_equal %i[early later], events(loop, 2)
    end

    def test_a_timer_may_be_set_again_in_its_handler
      loop = new_loop
      count = 0
      loop.watch_timer(:timer, 0, 0)
      loop.each do |key|
        assert_equal :timer, key
        (count += 1) == 3 ? loop.stop : loop.watch_timer(:timer, 0.001, 0)
      end
    end

    def test_times_that_make_no_sense_are_refused
      loop = new_loop
      assert_raises(ArgumentError) { loop.watch_timer(:a, -1, 0) }
      assert_raises(ArgumentError) { loop.watch_timer(:a, 1, -1) }
      assert_raises(TypeError) { loop.watch_timer(:a, nil, 0) }
      refute loop.watching?(:a)
    end

    def test_a_timer_far_away_may_be_called_off
      loop = new_loop
      loop.watch_timer(:never, 1e12, 0)
      loop.unwatch(:never)
      refute loop.watching?(:never)
    end
  end
end
