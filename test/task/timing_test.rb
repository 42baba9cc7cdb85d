# frozen_string_literal: true

# after and every: when their blocks run, and how they end.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("TaskTimingTest") do
  def test_an_unblock_meanwhile_does_not_make_it_earlier
    Gyre.run do |task|
      start = monotonic_s
      child = task.after(0.02) { monotonic_s - start }
      2.times do
        task.scheduler.unblock(nil, child.fiber)
        task.yield
      end
      assert_operator child.wait, :>=, 0.02
    end
  end

  def test_after_runs_the_block_once_and_later
    Gyre.run do |task|
      start = monotonic_s
      child = task.after(0.02, "later") { |own| [own.name, monotonic_s] }
      Gyre.after(60) { flunk }.stop
      name, at = child.wait
      assert_equal "later", name
      assert_operator at - start, :>=, 0.02
      assert_equal(:now, Gyre.after(-1) { :now }.wait)
      assert_raises(ArgumentError) { task.after("soon") { nil } }
      assert_raises(ArgumentError) { task.after(1) }
    end
  end

  def test_a_parent_waits_for_what_comes_later_unless_it_is_transient
    ran = []
    Gyre.run do |task|
      task.after(0.01) { ran << :needed }
      task.after(60, transient: true) { ran << :not_needed }
    end
    assert_equal [:needed], ran
  end

  def test_every_beats_at_multiples_of_the_time_however_long_the_block_takes
    on_time = Array.new(5).any? do # a busy machine is late now and then
      late = beats(3, every: 0.04, taking: 0.02).map { |at| at % 0.04 }
      late.all? { |by| by < 0.015 }
    end
    assert on_time
  end

  def test_beats_that_are_missed_are_left_out
    count = 0
    Gyre.run do |task|
      beating = task.every(0.01) do
        count += 1
        finish = monotonic_s + 0.1
        nil while monotonic_s < finish && count == 1
      end
      sleep 0.001 until count.positive?
      sleep 0
      assert_operator count, :<=, 2
      beating.stop
    end
  end

  def test_every_ends_with_its_parent
    took = duration_s { Gyre.run { Gyre.every(60) { flunk } && nil } }
    assert_operator took, :<, 5
  end

  def test_an_exception_in_a_beat_ends_it_visibly
    _out, err = capture do
      Gyre.run do |task|
        beating = task.every(0.005, "clock") { raise "broken" }
        eventually { sleep(0.001) && beating.failed? }
        assert_match(/unhandled in task "clock".*broken/, $stderr.string)
      end
    end
    assert_equal 1, err.scan("broken").size

    Gyre.run { |task| assert_raises(KeyError) { task.every(0.001) { raise KeyError }.wait } }
  end

  def test_what_every_needs
    Gyre.run do |task|
      [0, -1, "1", nil].each { |seconds| assert_raises(ArgumentError) { task.every(seconds) { nil } } }
      assert_raises(ArgumentError) { task.every(1) }
    end
    assert_raises(RuntimeError) { Gyre.every(1) { nil } }
  end

  private

  # @return [Array<Float>] when they came, seconds after the start
  def beats(count, every:, taking:)
    Gyre.run do |task|
      start = monotonic_s
      seen = []
      beating = task.every(every) do
        seen << (monotonic_s - start)
        sleep taking
        beating.stop if seen.size == count
      end
      beating.wait
      seen
    end
  end
end
