# frozen_string_literal: true

# after and every: when their blocks run, and how they end.

require "test_helper"
require "support/engines"
require "gyre"
require "support/portable_simulation"

GyreTest::Engines.test_case("TaskTimingTest") do
  def test_an_unblock_meanwhile_does_not_make_it_earlier
    Gyre.run do |task|
      start = monotonic_s
      child = task.after(0.02) { monotonic_s - start }
      fiber = child.fiber
      2.times do
        task.scheduler.unblock(nil, fiber)
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

  def test_a_parent_waits_for_later_work_unless_it_is_transient
    ran = []
    Gyre.run do |task|
      task.after(0.01) { ran << :needed }
      task.after(60, transient: true) { ran << :not_needed }
    end
    assert_equal [:needed], ran
  end

  def test_every_beats_at_multiples_of_the_time_however_long_the_block_takes
    seen = []
    Gyre::Testing.run(seed: 1) do |task|
      beating = task.every(0.04) do
        seen << Gyre::Testing.elapsed.round(3)
        sleep 0.02
        beating.stop if seen.size == 3
      end
      beating.wait
    end
    assert_equal [0.04, 0.08, 0.12], seen
  end

  def test_beats_that_are_missed_are_left_out
    seen = []
    Gyre::Testing.run(seed: 1) do |task|
      beating = task.every(0.01) do
        seen << Gyre::Testing.elapsed.round(3)
        sleep 0.105 if seen.size == 1
        beating.stop if seen.size == 3
      end
      beating.wait
    end
    assert_equal [0.01, 0.12, 0.13], seen
  end

  def test_every_ends_with_its_parent
    took = duration_s { Gyre.run { Gyre.every(60) { flunk } && nil } }
    assert_operator took, :<, 50
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

  def test_every_checks_its_arguments
    Gyre.run do |task|
      [0, -1, "1", nil].each { |seconds| assert_raises(ArgumentError) { task.every(seconds) { nil } } }
      assert_raises(ArgumentError) { task.every(1) }
    end
    assert_raises(RuntimeError) { Gyre.every(1) { nil } }
  end
end
