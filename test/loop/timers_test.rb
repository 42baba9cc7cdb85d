# frozen_string_literal: true

# The portable loop's timers by themselves. Runs on JRuby as well (test/jruby_test.rb).
require "test_helper"
require "gyre/loop"

class PortableTimersTest < Minitest::Test
  def setup
    @timers = Gyre::Loop::Timers.new
    @fired = []
  end

  def test_due_timers_fire_in_the_order_of_their_times_and_of_their_arming
    [-1, -3, -2, -3, 60].each_with_index { |seconds, index| @timers.after(seconds, -> { @fired << index }) }
    assert_equal 0, @timers.delay
    @timers.fire
    assert_equal [1, 3, 2, 0], @fired
    assert_equal 1, @timers.size
    assert_in_delta 60, @timers.delay, 1
  end

  def test_a_cancelled_timer_does_not_fire
    timer = @timers.after(-1, -> { @fired << :cancelled })
    2.times { timer.cancel }
    assert_nil @timers.delay
    @timers.fire
    assert_empty @fired
    refute_predicate timer, :pending?
  end

  def test_cancelled_timers_are_thrown_out_though_they_are_not_the_first
    @timers.after(1, -> {})
    1_000.times { @timers.after(100, -> {}).cancel }
    assert_equal 1, @timers.size
    assert_operator @timers.instance_variable_get(:@timers).size, :<, 300
  end

  def test_a_cancel_compares_with_a_few_timers_only
    compared = 0
    timers = Array.new(1_000) { |index| @timers.after(100 + index, -> {}) }
    timers.each { |timer| timer.define_singleton_method(:==) { |_| (compared += 1).nil? } }
    timers.each { |timer| timer.define_singleton_method(:at) { super().tap { compared += 1 } } }
    timers[500].cancel
    assert_equal 999, @timers.size
    assert_operator compared, :<, 30
  end

  def test_of_timers_for_the_same_time_the_cancelled_one_leaves
    timers = Array.new(3) { @timers.after(Float::INFINITY, -> {}) }
    timers[1].cancel
    assert_equal [true, false, true], timers.map(&:pending?)
    assert_equal 2, @timers.size
  end

  def test_a_timer_may_arm_and_cancel_others_while_it_fires
    later = nil
    @timers.after(-2, -> { later.cancel.then { @timers.after(-1, -> { @fired << :armed }) } })
    later = @timers.after(-1, -> { @fired << :later })
    @timers.fire
    assert_equal [:armed], @fired
  end

  def test_a_timer_for_the_end_of_time_lets_the_loop_sleep_for_long_but_not_forever
    @timers.after(Float::INFINITY, -> {})
    assert_equal Gyre::Loop::Timers::DELAY_LIMIT_S, @timers.delay
  end
end
