# frozen_string_literal: true

# Gyre::SpinLock: one at a time, and no wait at which a task could be stopped.

require "test_helper"
require "support/engines"
require "support/strikes"
require "gyre"

GyreTest::Engines.test_case("ShortLockTest") do
  include GyreTest::Strikes

  def test_thread_raise_leaves_it_free_and_its_work_done_or_not_begun
    lock = Gyre::SpinLock.new
    first = second = 0
    places = strike_everywhere(->(place) { assert_equal [first, true], [second, free?(lock)], "struck at place #{place}" }) do
      lock.synchronize do
        first += 1
        [1].each { nil }
        second += 1
      end
    end
    assert_operator places, :>, 2
  end

  def test_one_at_a_time
    lock = Gyre::SpinLock.new
    inside = most = 0
    Array.new(3) do
      Thread.new do
        50.times do
          lock.synchronize do
            most = [most, inside += 1].max
            Thread.pass
            inside -= 1
          end
        end
      end
    end.each(&:join)
    assert_equal [0, 1], [inside, most]
  end

  def test_a_trap_handler_that_interrupts_its_holder_is_refused
    lock = Gyre::SpinLock.new
    error = nil
    former = trap("USR2") do
      lock.synchronize { flunk }
    rescue ThreadError => error
      nil
    end
    lock.synchronize do
      Process.kill("USR2", Process.pid)
      Thread.pass until error
    end
    assert_match(/trap handler/, error.message)
    assert_equal(:value, lock.synchronize { :value })
  ensure
    trap("USR2", former || "DEFAULT")
  end

  def test_it_is_free_after_an_exception_and_gives_the_value
    lock = Gyre::SpinLock.new
    assert_raises(KeyError) { lock.synchronize { raise KeyError } }
    assert_equal(:value, lock.synchronize { :value })
  end

  def test_a_task_that_takes_it_cannot_be_stopped_before_it_has_it
    [Gyre::SpinLock.new, Gyre.run { |task| task.scheduler.runs.first.lock }].each do |lock|
      Gyre.run do |task|
        held = Thread::Queue.new
        holder = Thread.new { lock.synchronize { held.push(true) && sleep(0.05) } }
        had = false
        child = task.async { held.pop && lock.synchronize { had = true } }
        task.yield while held.num_waiting.positive? || !held.empty?
        child.stop
        child.wait
        holder.join
        assert had
      end
    end
  end

  private

  def free?(lock)
    Thread.new { lock.synchronize { true } }.join(GyreTest::Watchdog::LIMIT_S / 2)&.value
  end
end
