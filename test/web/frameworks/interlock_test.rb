# frozen_string_literal: true

# That code is reloaded only while no request runs: Gyre::Web::Interlock. With the real Rails it is
# in test/frameworks.

require "test_helper"
require "gyre"
require "gyre/web/frameworks/interlock"

class WebInterlockTest < Minitest::Test
  def setup
    @lock = Gyre::Web::Interlock.new
    @seen = []
  end

  def test_requests_run_together_and_unloading_waits_for_all_of_them
    Gyre.run do |task|
      go = Array.new(2) { Gyre::Promise.new }
      runners = go.map { |promise| task.async { @lock.running { promise.wait } } }
      unloader = task.async { @lock.unloading { @seen << :unloaded } }
      task.yield
      assert_empty @seen
      go[0].resolve
      runners[0].wait
      assert_empty @seen
      go[1].resolve
      unloader.wait
      assert_equal [:unloaded], @seen
    end
  end

  def test_no_request_begins_while_classes_are_unloaded
    Gyre.run do |task|
      go = Gyre::Promise.new
      task.async { @lock.unloading { go.wait && @seen << :unloaded } }
      task.yield
      runner = task.async { @lock.running { @seen << :ran } }
      task.yield
      assert_empty @seen
      go.resolve(true)
      runner.wait
      assert_equal %i[unloaded ran], @seen
    end
  end

  def test_several_that_run_and_find_a_change_unload_one_after_another
    Gyre.run do |task|
      unloaders = Array.new(3) do |number|
        task.async do
          @lock.running do
            task.yield
            @lock.unloading do
              @seen << [:begin, number]
              task.yield
              @seen << [:end, number]
            end
            @seen << :ran
          end
        end
      end
      unloaders.each(&:wait)
      assert_equal [%i[begin end]] * 3, @seen.first(6).map(&:first).each_slice(2).to_a
      assert_equal [:ran] * 3, @seen.last(3)
    end
  end

  def test_a_request_may_run_and_unload_within_itself
    @lock.running { @lock.running { @lock.unloading { @lock.unloading { @lock.running { @seen << :done } } } } }
    @lock.unloading { @seen << :free }
    assert_equal %i[done free], @seen
    assert_raises(ThreadError) { @lock.done_unloading }
    @lock.done_running # of what ran before this lock was in place
  end

  def test_fibers_of_a_request_are_a_part_of_it
    skip "fibers have no storage before Ruby 3.2" unless Fiber.respond_to?(:[])

    Gyre.run do |task|
      inner = Gyre::Promise.new
      runner = task.async { @lock.running { Fiber.new { @lock.unloading { @seen << :inner } }.resume && inner.wait } }
      inner.resolve
      runner.wait
      assert_equal [:inner], @seen
    end
  end

  def test_a_cancelled_wait_leaves_the_lock_as_it_was
    Gyre.run do |task|
      go = Gyre::Promise.new
      runner = task.async { @lock.running { go.wait } }
      unloader = task.async { @lock.running { @lock.unloading { flunk } } }
      task.yield
      unloader.stop
      unloader.join if unloader.respond_to?(:join)
      go.resolve
      runner.wait
      @lock.unloading { @seen << :free }
      assert_equal [:free], @seen
    end
  end

  def test_threads_count_as_well
    go = Thread::Queue.new
    running = Thread::Queue.new
    thread = Thread.new { @lock.running { running << true && go.pop } }
    running.pop
    unloader = Thread.new { @lock.unloading { @seen << :unloaded } }
    eventually { unloader.stop? }
    assert_empty @seen
    go << true
    [thread, unloader].each(&:join)
    assert_equal [:unloaded], @seen
  end
end
