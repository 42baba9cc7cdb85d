# frozen_string_literal: true

# with_timeout: limits of every size, timeouts within timeouts, and timeouts beside stops.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("TaskTimeoutTest") do
  def test_a_block_that_takes_too_long_is_left_with_a_timeout_error
    took = duration_s do
      Gyre.run do |task|
        error = assert_raises(Gyre::TimeoutError) { task.with_timeout(0.02) { sleep } }
        assert_match(%r{\Aexecution expired: deadline of 0.02 s, set at .*expired_test.rb:13\z}, error.message)
        assert_kind_of Gyre::Error, error
        assert_nil error.cause
      end
    end
    assert_operator took, :>=, 0.02
  end

  def test_a_block_that_ends_in_time_gives_its_value
    Gyre.run do |task|
      assert_equal(:value, task.with_timeout(60) { sleep(0.001) && :value })
      assert_equal(:value, task.with_timeout(5) { :value })
    end
  end

  def test_the_error_shows_where_the_block_waited
    Gyre.run do |task|
      line = __LINE__ + 1
      error = assert_raises(Gyre::TimeoutError) { task.with_timeout(0.001) { sleep 10 } }
      assert(error.backtrace.any? { |place| place.include?("#{__FILE__}:#{line}") }, error.backtrace.first(5).join("\n"))
    end
  end

  def test_it_raises_the_given_exception
    own = Class.new(StandardError)
    Gyre.run do |task|
      assert_raises(own) { task.with_timeout(0.001, own) { sleep } }
      assert_equal("too slow", assert_raises(own) { task.with_timeout(0.001, own, "too slow") { sleep } }.message)
      instance = own.new("this one")
      assert_same(instance, assert_raises(own) { task.with_timeout(0.001, instance) { sleep } })
      assert_equal("slow", assert_raises(Gyre::TimeoutError) { task.with_timeout(0.001, Gyre::TimeoutError, "slow") { sleep } }.message)
    end
  end

  def test_nil_means_no_limit
    Gyre.run { |task| assert_equal(:value, task.with_timeout(nil) { sleep(0.01) && :value }) }
  end

  def test_zero_and_negative_seconds_are_over_at_the_first_wait
    Gyre.run do |task|
      [0, 0.0, -1, -0.5].each do |seconds|
        assert_raises(Gyre::TimeoutError) { task.with_timeout(seconds) { sleep 10 } }
        assert_equal(:value, task.with_timeout(seconds) { :value })
      end
    end
  end

  def test_rational_and_float_seconds_are_fine
    Gyre.run do |task|
      assert_raises(Gyre::TimeoutError) { task.with_timeout(Rational(1, 100)) { sleep } }
      assert_raises(Gyre::TimeoutError) { task.with_timeout(0.01) { sleep } }
    end
  end

  def test_the_time_of_a_block_that_ended_just_in_time_hits_nothing_afterwards
    Gyre.run do |task|
      200.times do
        task.with_timeout(0.0005) { sleep 0.0004 }
      rescue Gyre::TimeoutError
        nil
      end
      sleep 0.01
      assert_equal(:quiet, task.async { sleep(0.005) && :quiet }.wait)
    end
  end

  def test_a_block_that_computes_beyond_its_time_is_not_cut_off
    Gyre.run do |task|
      finish = monotonic_s + 0.02
      assert_equal(:value, task.with_timeout(0.001) { (nil while monotonic_s < finish) || :value })
      sleep 0.001
    end
  end

  def test_ensure_runs_and_may_wait
    cleaned = false
    Gyre.run do |task|
      assert_raises(Gyre::TimeoutError) do
        task.with_timeout(0.01) do
          sleep
        ensure
          sleep 0.01
          cleaned = true
        end
      end
    end
    assert cleaned
  end

  def test_an_exception_of_the_block_comes_through
    Gyre.run { |task| assert_raises(KeyError) { task.with_timeout(1) { raise KeyError } } }
  end

  def test_code_inside_cannot_mistake_the_end_of_the_time_for_its_own_trouble
    Gyre.run do |task|
      assert_raises(Gyre::TimeoutError) do
        task.with_timeout(0.01) do
          sleep 10
        rescue StandardError
          flunk "rescued inside"
        end
      end
    end
  end

  def test_the_outer_timeout_is_not_taken_for_the_inner_one
    assert_equal(:outer, first_to_raise(0.01, 10) { sleep })
  end

  def test_the_inner_timeout_is_not_taken_for_the_outer_one
    assert_equal(:inner, first_to_raise(10, 0.01) { sleep })
  end

  def test_timeouts_that_end_together_reach_the_outermost_one
    50.times { assert_equal(:outer, first_to_raise(0.0005, 0.0005, -> { sleep 10 }) { sleep }) }
  end

  def test_an_inner_time_that_ends_while_the_outer_one_unwinds_does_not_hide_it
    outcome = first_to_raise(0.01, 0.02) do
      sleep
    ensure
      sleep 0.05
    end
    assert_equal :outer, outcome
  end

  def test_an_outer_time_that_ends_while_the_inner_one_unwinds_goes_first
    outcome = first_to_raise(0.02, 0.01) do
      sleep
    ensure
      sleep 10
    end
    assert_equal :outer, outcome
  end

  def test_a_time_that_ends_while_a_stop_unwinds_does_not_hide_the_stop
    Gyre.run do |task|
      waiting = task.async do
        task.with_timeout(0.02) do
          sleep
        ensure
          sleep 0.05
        end
      rescue Gyre::TimeoutError
        flunk "the stop got lost"
      end
      waiting.stop.wait
      assert_equal :stopped, waiting.status
    end
  end

  def test_cleaning_up_after_a_stop_may_have_a_time_limit_of_its_own
    outcome = nil
    Gyre.run do |task|
      waiting = task.async do |inner|
        sleep
      ensure
        begin
          inner.with_timeout(0.01) { sleep }
        rescue Gyre::TimeoutError
          outcome = :gave_up
        end
      end
      waiting.stop.wait
      assert_equal :stopped, waiting.status
    end
    assert_equal :gave_up, outcome
  end

  def test_it_bounds_a_wait_for_a_task_and_leaves_the_task_alone
    Gyre.run do |task|
      gate = Gyre::Queue.new
      slow = task.async { gate.pop }
      assert_raises(Gyre::TimeoutError) { task.with_timeout(0.01) { slow.wait } }
      gate.push(:value)
      assert_equal :value, slow.wait
    end
  end

  def test_it_bounds_io
    reader, writer = IO.pipe
    Gyre.run { |task| assert_raises(Gyre::TimeoutError) { task.with_timeout(0.01) { reader.read(1) } } }
  ensure
    [reader, writer].each(&:close)
  end

  def test_rubys_own_timeout_works_in_a_task
    require "timeout"
    Gyre.run { assert_raises(Timeout::Error) { Timeout.timeout(0.01) { sleep 10 } } }
  end

  private

  def first_to_raise(outer_s, inner_s, after_inner = -> {}, &block)
    Gyre.run do |task|
      task.with_timeout(outer_s) do
        task.with_timeout(inner_s, &block)
      rescue Gyre::TimeoutError
        after_inner.call
        :inner
      end
    rescue Gyre::TimeoutError
      :outer
    end
  end
end
