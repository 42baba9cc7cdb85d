# frozen_string_literal: true

# Gyre::Promise: one value or exception, for all waiters.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("PromiseTest") do
  def test_all_waiters_get_the_value_and_so_do_later_ones
    Gyre.run do |task|
      promise = Gyre::Promise.new
      waiting = Array.new(3) { task.async { promise.wait } }
      thread = Thread.new { promise.wait }
      eventually { sleep(0.001) && promise.waiting == 4 }
      assert_match(/pending, 4 waiting/, promise.inspect)
      assert_nil promise.value
      assert promise.resolve(:value)
      assert_equal %i[value value value value value], [*waiting.map(&:wait), thread.value, promise.wait]
      assert_equal [true, true, false], [promise.resolved?, promise.completed?, promise.pending?]
      refute_predicate promise, :rejected?
      assert_equal :value, promise.value
    end
  end

  def test_only_the_first_setting_counts
    promise = Gyre::Promise.new
    assert promise.resolve
    refute promise.resolve(1)
    refute promise.reject("late")
    assert_nil promise.wait
  end

  def test_of_many_threads_one_sets_it
    100.times do
      promise = Gyre::Promise.new
      set = Array.new(4) { |index| Thread.new { promise.resolve(index) && index } }.filter_map(&:value)
      assert_equal set, [promise.wait]
    end
  end

  def test_an_exception_is_raised_for_all
    error = KeyError.new("no")
    promise = Gyre::Promise.new
    assert promise.reject(error)
    2.times { assert_same error, assert_raises(KeyError) { promise.wait } }
    assert_predicate promise, :failed?
    assert_same error, promise.value
    assert_raises(KeyError) { Gyre::Promise.new.tap { |other| other.reject(KeyError) }.wait }
    assert_equal("no", assert_raises(RuntimeError) { Gyre::Promise.new.tap { |other| other.reject("no") }.wait }.message)
  end

  def test_the_wait_may_be_limited
    Gyre.run do |task|
      promise = Gyre::Promise.new
      [0.01, 0, -1].each { |timeout| assert_raises(Gyre::TimeoutError) { promise.wait(timeout: timeout) } }
      assert_equal 0, promise.waiting
      task.after(0.005) { promise.resolve(1) }
      assert_equal 1, promise.wait(timeout: 60)
    end
  end

  def test_it_is_rejected_with_what_can_be_raised
    promise = Gyre::Promise.new
    assert_match(/not 3\z/, assert_raises(ArgumentError) { promise.reject(3) }.message)
    assert_predicate promise, :pending?
  end

  def test_fulfill_takes_what_comes_of_a_block
    promise = Gyre::Promise.new
    assert_equal([1, 1], [promise.fulfill { 1 }, promise.wait])
    failing = Gyre::Promise.new
    assert_raises(KeyError) { failing.fulfill { raise KeyError } }
    assert_raises(KeyError) { failing.wait }
    thrown = Gyre::Promise.new
    catch(:out) { thrown.fulfill { throw :out } }
    assert_nil thrown.wait
  end
end
