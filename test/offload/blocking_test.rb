# frozen_string_literal: true

require "test_helper"
require "gyre"

class OffloadBlockingTest < Minitest::Test
  def test_other_fibers_run_while_the_block_does
    events = []
    Gyre.run do |task|
      go = Thread::Queue.new
      task.async { events << :other && go << true }
      assert_equal 5, Gyre.blocking { Fiber.new(blocking: true) { go.pop && 5 }.resume }
      events << :done
    end
    assert_equal %i[other done], events
  end

  def test_its_thread_has_a_low_priority_and_gets_its_own_back
    priorities = Gyre.run do
      first = Gyre.blocking { [Thread.current, Thread.current.priority] }
      [first.last, Gyre::Offload.call { Thread.current.priority }]
    end
    assert_equal [-3, 0], priorities
  end

  def test_without_a_scheduler_the_block_just_runs
    assert_equal [Thread.current, 0], Gyre.blocking { [Thread.current, Thread.current.priority] }
    assert_raises(ArgumentError) { Gyre.blocking }
  end

  # Two rounds, as a thread's first block follows what its maker has set, and the next one a block.
  def test_a_block_has_its_callers_storage_and_no_state_of_an_earlier_block
    storage = Fiber.respond_to?(:[])
    look = lambda do
      before = [Thread.current[:user], storage ? Fiber[:user] : nil]
      Thread.current[:user] = "ann"
      Fiber[:user] = "ann" if storage
      before.tap { sleep 0.01 }
    end
    Gyre.run do |task|
      look_as = lambda do |user|
        Fiber[:user] = user if storage
        Gyre.blocking(&look)
      end
      2.times do |round|
        users = Array.new(5) { |index| "#{round}.#{index}" }
        assert_equal users.map { |user| [nil, storage ? user : nil] }, users.map { |user| task.async { look_as.call(user) } }.map(&:wait)
      end
    end
  end

  def test_what_the_block_raises_is_raised
    error = assert_raises(KeyError) { Gyre.run { Gyre.blocking { raise KeyError, "no" } } }
    assert_equal "no", error.message
  end

  def test_a_timeout_ends_the_work
    begun = false
    ended = Thread::Queue.new
    work = lambda do
      begun = true
      loop { Thread.pass }
    ensure
      ended << true
    end
    Gyre.run do |task| # on a busy machine the time may end before the work begins
      assert_raises(Gyre::TimeoutError) { task.with_timeout(0.02) { Gyre.blocking(&work) } } until begun
    end
    assert ended.pop
  end

  # On Ruby 3.1 and 3.2 a thread's turn is 100 ms whatever its priority is; see docs/blocking.md.
  def test_a_computation_holds_up_other_fibers_for_less_than_a_turn_each_time
    skip "Ruby before 3.3 gives each thread 100 ms" if RUBY_VERSION < "3.3"

    turns = 0
    Gyre.run do |task|
      counting = task.async { loop { sleep(0.001) && turns += 1 } }
      Gyre.blocking do
        burnt = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + 0.4
        nil until Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) > burnt
      end
      counting.stop
    end
    assert_operator turns, :>, 8 # with turns of 100 ms of its own time: 4 or 5
  end
end
