# frozen_string_literal: true

# Gyre.with_deadline and Gyre.deadline: what a deadline concerns, which one wins, and which one it
# was. What with_timeout has in common with it is in test/task/expired_test.rb.

require "test_helper"
require "support/engines"
require "timeout"
require "gyre"

GyreTest::Engines.test_case("DeadlineTest") do
  def test_the_error_names_the_deadline
    Gyre.run do
      deadline = nil
      line = __LINE__ + 1
      error = assert_raises(Gyre::TimeoutError) { Gyre.with_deadline(0.01, name: "fetch") { |given| (deadline = given) && sleep } }
      assert_same deadline, error.deadline
      assert_equal "execution expired: deadline \"fetch\" of 0.01 s, set at #{__FILE__}:#{line}", error.message
      assert_equal ["fetch", 0.01, "#{__FILE__}:#{line}"], [deadline.name, deadline.seconds, deadline.place]
      assert_match(/"fetch" of 0.01 s.* 0.0 s left/, deadline.inspect)
      assert_predicate deadline, :passed?
    end
  end

  def test_the_block_need_not_be_a_block
    Gyre.run do |task|
      queue = Gyre::Queue.new
      error = assert_raises(Gyre::TimeoutError) { task.with_timeout(0.01, &queue.method(:pop)) }
      assert_match(/queue.rb:/, error.message)
      error = assert_raises(Gyre::TimeoutError) { task.with_timeout(0.01, &Kernel.method(:sleep)) }
      assert_equal "execution expired: deadline of 0.01 s", error.message
    end
  end

  def test_a_block_that_ends_in_time_gives_its_value
    Gyre.run { assert_equal(:value, Gyre.with_deadline(60) { sleep(0.001) && :value }) }
  end

  def test_it_may_be_given_as_a_time_of_the_clock
    Gyre.run do
      at = Gyre::Clock.now + 60
      Gyre.with_deadline(at: at) { |deadline| assert_in_delta at, deadline.at, 30 }
      assert_raises(Gyre::TimeoutError) { Gyre.with_deadline(at: Gyre::Clock.now - 1) { sleep } }
    end
  end

  def test_what_can_be_given
    assert_raises(RuntimeError) { Gyre.with_deadline(1) { nil } }
    Gyre.run do
      assert_raises(ArgumentError) { Gyre.with_deadline(1) }
      assert_raises(ArgumentError) { Gyre.with_deadline(1, at: 2) { nil } }
      ["1", Float::NAN, :now].each { |seconds| assert_raises(ArgumentError) { Gyre.with_deadline(seconds) { nil } } }
      [nil, Float::INFINITY].each { |seconds| assert_nil(Gyre.with_deadline(seconds) { Gyre.deadline }) }
      [0, -1, -Float::INFINITY].each do |seconds|
        assert_raises(Gyre::TimeoutError) { Gyre.with_deadline(seconds) { sleep } }
        assert_equal(:value, Gyre.with_deadline(seconds) { :value })
      end
    end
  end

  def test_the_nearest_one_can_be_asked_for
    assert_nil Gyre.deadline
    Gyre.run do |task|
      assert_nil Gyre.deadline
      Gyre.with_deadline(1000) do |outer|
        Gyre.with_deadline(2000) { assert_same outer, Gyre.deadline }
        task.with_timeout(500) do |inner|
          assert_same inner, Gyre.deadline
          assert_in_delta 500, inner.remaining, 100
        end
        assert_same outer, Gyre.deadline
        assert_same outer, task.async { Gyre.deadline }.wait
      end
      assert_nil Gyre.deadline
    end
  end

  def test_an_outer_one_that_is_nearer_wins_and_is_named
    Gyre.run do
      outcome = begin
        Gyre.with_deadline(0.01, name: "outer") do
          Gyre.with_deadline(60, name: "inner") { sleep }
        rescue Gyre::TimeoutError
          flunk "taken for the inner one"
        end
      rescue Gyre::TimeoutError => error
        error.deadline.name
      end
      assert_equal "outer", outcome
    end
  end

  def test_both_in_the_same_turn_and_neither_swallows_the_other
    Gyre.run do
      50.times do
        at = Gyre::Clock.now + 0.001
        seen = []
        begin
          Gyre.with_deadline(at: at, name: "outer") do
            Gyre.with_deadline(at: at, name: "inner") { finish_the_turn(at) }
          rescue Gyre::TimeoutError => error
            seen << error.deadline.name
            sleep
          end
        rescue Gyre::TimeoutError => error
          seen << error.deadline.name
        end
        assert_equal "outer", seen.last
      end
    end
  end

  def test_an_outer_one_that_passes_while_the_inner_one_unwinds_goes_first
    Gyre.run do
      error = assert_raises(Gyre::TimeoutError) do
        Gyre.with_deadline(0.03, name: "outer") do
          Gyre.with_deadline(0.01, name: "inner") do
            sleep
          ensure
            sleep
          end
        end
      end
      assert_equal "outer", error.deadline.name
    end
  end

  def test_cleaning_up_after_it_is_not_cut_off_and_may_have_a_limit_of_its_own
    Gyre.run do
      cleaned = nil
      assert_raises(Gyre::TimeoutError) do
        Gyre.with_deadline(0.01, name: "work") do
          sleep
        ensure
          sleep 0.01
          cleaned = assert_raises(Gyre::TimeoutError) { Gyre.with_deadline(0.01, name: "clean up") { sleep } }
        end
      end
      assert_equal "clean up", cleaned.deadline.name
    end
  end

  def test_children_are_stopped_with_it
    Gyre.run do |task|
      child = grandchild = cleaned = nil
      assert_raises(Gyre::TimeoutError) do
        Gyre.with_deadline(0.01) do
          child = task.async do |inner|
            grandchild = inner.async { sleep }
            sleep
          ensure
            sleep 0.01
            cleaned = true
          end
          child.wait
        end
      end
      assert_nil child.wait
      assert cleaned
      assert_equal %i[stopped stopped], [child.status, grandchild.status]
    end
  end

  def test_children_are_stopped_before_the_block_has_to_wait_for_them
    Gyre.run do |task|
      assert_raises(Gyre::TimeoutError) do
        Gyre.with_deadline(0.01) do
          child = task.async { sleep }
          begin
            sleep
          ensure
            child.wait
          end
        end
      end
    end
  end

  def test_children_that_go_on_stay_under_it_and_fail_with_it
    Gyre.run do |task|
      late = quick = nil
      Gyre.with_deadline(60, name: "far") { quick = task.async { sleep(0.001) && Gyre.deadline.name } }
      Gyre.with_deadline(0.02, name: "near") { late = task.async { |child| child.async { sleep } && sleep } }
      assert_equal "far", quick.wait
      error = assert_raises(Gyre::TimeoutError) { late.wait }
      assert_equal "near", error.deadline.name
      assert_equal :failed, late.status
    end
  end

  def test_a_late_child_without_a_waiter_is_reported
    _out, err = capture do
      Gyre.run { |task| Gyre.with_deadline(0.01, name: "alone") { task.async("child") { sleep } } }
    end
    assert_match(/unhandled in task "child".*deadline "alone"/, err)
  end

  def test_a_failure_of_a_child_that_goes_on_is_not_lost
    _out, err = capture do
      Gyre.run { |task| Gyre.with_deadline(60) { task.async("child") { sleep(0.01) && raise("broken") } } }
    end
    assert_match(/unhandled in task "child".*broken/, err)
  end

  def test_a_deadline_whose_tasks_are_over_holds_nothing_up
    took = duration_s { Gyre.run { |task| Gyre.with_deadline(60) { task.async { sleep 0.001 } } } }
    assert_operator took, :<, 50
  end

  def test_a_timeout_concerns_its_children_only_while_its_block_runs
    Gyre.run do |task|
      background = stopped = nil
      task.with_timeout(0.01) { background = task.async { sleep(0.03) && :value } }
      assert_raises(Gyre::TimeoutError) do
        task.with_timeout(0.01) do
          stopped = task.async { sleep }
          sleep
        end
      end
      assert_equal :value, background.wait
      assert_nil stopped.wait
    end
  end

  def test_transient_children_and_those_of_other_tasks_are_not_under_it
    Gyre.run do |task|
      clock = sibling = nil
      task.async do |child|
        Gyre.with_deadline(0.01) do
          clock = child.async(transient: true) { Gyre.deadline.inspect }
          sibling = task.async { Gyre.deadline.inspect }
        end
      end
      assert_equal %w[nil nil], [clock.wait, sibling.wait]
    end
  end

  def test_rubys_timeout_within_is_cut_off_and_keeps_its_own_error
    Gyre.run do
      error = assert_raises(Gyre::TimeoutError) { Gyre.with_deadline(0.01, name: "mine") { Timeout.timeout(60) { sleep } } }
      assert_equal "mine", error.deadline.name
      Gyre.with_deadline(60) { assert_raises(Timeout::Error) { Timeout.timeout(0.01) { sleep } } }
      Timeout.timeout(60) { assert_raises(Gyre::TimeoutError) { Gyre.with_deadline(0.01) { sleep } } }
    end
  end

  def test_a_timeout_of_an_io_within_is_cut_off_and_keeps_its_own_error
    reader, writer = IO.pipe
    skip "IO#timeout came with Ruby 3.2" unless reader.respond_to?(:timeout=)
    Gyre.run do
      reader.timeout = 60
      assert_raises(Gyre::TimeoutError) { Gyre.with_deadline(0.01) { reader.read(1) } }
      reader.timeout = 0.01
      assert_raises(IO::TimeoutError) { Gyre.with_deadline(60) { reader.read(1) } }
    end
  ensure
    [reader, writer].each(&:close)
  end

  def test_a_nested_run_is_under_it
    Gyre.run do
      error = assert_raises(Gyre::TimeoutError) { Gyre.with_deadline(0.01, name: "outer") { Gyre.run { sleep } } }
      assert_equal "outer", error.deadline.name
    end
  end

  def test_a_stop_goes_before_a_deadline_that_passes_while_it_unwinds
    Gyre.run do |task|
      child = task.async do
        Gyre.with_deadline(0.01) do
          sleep
        ensure
          sleep
        end
      end
      child.stop.wait
      assert_equal :stopped, child.status
    end
  end

  private

  # Computes beyond the time, so that everything which is due is due at once.
  def finish_the_turn(at)
    nil until Gyre::Clock.now > at + 0.0005
    sleep
  end
end
