# frozen_string_literal: true

# More than a million hand-offs between fibers and threads over every engine, by each of Ruby's own
# means; each is counted, none may be lost and none come twice. On Ruby 3.1 and 3.2 other schedulers
# lose wake-ups of Queue#pop by other threads, so most of the pushes here come from threads.
require "test_helper"
require "support/engines"
require "support/stress"
require "timeout"

# How the numbers 0 to n - 1 are dealt out to several producers.
module Dealing
  # Calls the block for each number that falls to this one of the parts.
  def dealt(count, part, parts)
    number = part
    while number < count
      yield number
      number += parts
    end
  end

  # A consumer: takes numbers until the queue is closed.
  def take_all(queue, ledger, random = nil)
    while (number = queue.pop)
      ledger.got(number)
      dawdle(random) if random
    end
  end

  # Starts the threads, and closes the queue when they are done. Join the one that is returned.
  def threads_then_close(queue, parts)
    threads = Array.new(parts) { |part| Thread.new { yield part } }
    Thread.new do
      threads.each(&:join)
      queue.close
    end
  end
end

# A bounded buffer by hand.
class BoundedBuffer
  def initialize(limit)
    @limit = limit
    @mutex = Thread::Mutex.new
    @filled = Thread::ConditionVariable.new
    @emptied = Thread::ConditionVariable.new
    @things = []
  end

  def push(thing)
    @mutex.synchronize do
      wait_for(@emptied) until @things.size < @limit
      @things.push(thing)
      @filled.signal
    end
  end

  def pop
    @mutex.synchronize do
      wait_for(@filled) until @things.any? || @closed
      @emptied.signal
      @things.shift
    end
  end

  def close
    @mutex.synchronize do
      @closed = true
      @filled.broadcast
    end
  end

  private

  # On Ruby 3.1 a thread misses the signal when it is switched away from between unlocking and
  # sleeping, which happens where a fiber waits for the same mutex: Ruby runs the hook there. So
  # threads look again; fibers have no need to.
  def wait_for(variable)
    variable.wait(@mutex, Fiber.current.blocking? ? 0.02 : nil)
  end
end

GyreTest::Engines.test_case("HandOffsTest") do
  include GyreTest::Stress
  include Dealing

  def test_a_queue_between_fibers
    count = amount(600_000)
    queue = Thread::Queue.new
    hand_over(count) do |ledger, scheduler|
      6.times { scheduler.spawn { take_all(queue, ledger) } }
      producers = 4
      4.times do |part|
        scheduler.spawn do
          dealt(count, part, 4) { |number| queue.push(number).then { scheduler.yield if queue.size > 16 } }
          queue.close if (producers -= 1).zero?
        end
      end
    end
  end

  def test_a_queue_filled_by_threads
    count = amount(300_000)
    queue = Thread::Queue.new
    hand_over(count) do |ledger, scheduler|
      10.times { scheduler.spawn { take_all(queue, ledger) } }
      threads_then_close(queue, 3) do |part|
        dealt(count, part, 3) { |number| queue.push(number).then { Thread.pass if (number & 255).zero? } }
      end
    end
  end

  # One at a time, so that each finds the fibers parked, and the loop asleep or just falling asleep.
  def test_each_push_of_a_thread_ends_a_sleep_of_the_loop
    count = amount(10_000)
    there = Thread::Queue.new
    back = Thread::Queue.new
    thread = Thread.new do
      count.times { |number| there.push(number).then { back.pop } }
      there.close
    end
    hand_over(count) do |ledger, scheduler|
      5.times do
        scheduler.spawn do
          while (number = there.pop)
            ledger.got(number)
            back.push(number)
          end
        end
      end
    end
    thread.join
  end

  def test_a_queue_emptied_by_threads_and_fibers_of_two_schedulers
    count = amount(100_000)
    queue = Thread::Queue.new
    ledger = GyreTest::Stress::Ledger.new(count)
    takers = Array.new(2) do |which|
      scheduler_thread { |scheduler| 4.times { |index| scheduler.spawn { take_all(queue, ledger, random((10 * which) + index)) } } }
    end
    takers += Array.new(2) { Thread.new { take_all(queue, ledger) } }
    threads_then_close(queue, 2) { |part| dealt(count, part, 2) { |number| queue.push(number) } }.join
    takers.each(&:join)
    assert_all_once(ledger)
  end

  def test_sized_queues_of_each_size_between_threads_and_fibers
    count = amount(8_000)
    [1, 2, 7].each do |size|
      there = Thread::SizedQueue.new(size)
      back = Thread::SizedQueue.new(size)
      hand_over(count) do |ledger, scheduler|
        4.times { |index| scheduler.spawn { pass_on(there, back, random(index)) } }
        threads_then_close(there, 2) { |part| dealt(count, part, 2) { |number| there.push(number) } }
        takers = Array.new(2) { Thread.new { take_all(back, ledger) } }
        scheduler.spawn { takers.each(&:join) }
      end
    end
  end

  # A fiber that is interrupted in pop takes nothing, and the next one gets what it would have got.
  def test_timeouts_of_pop_lose_nothing
    count = amount(20_000)
    queue = Thread::Queue.new
    hand_over(count) do |ledger, scheduler|
      6.times { |index| scheduler.spawn { take_impatiently(queue, ledger, random(index)) } }
      threads_then_close(queue, 2) do |part|
        random = random(100 + part)
        dealt(count, part, 2) { |number| queue.push(number).then { sleep(random.rand * 0.0004) if (number & 7).zero? } }
      end
    end
  end

  def test_a_mutex_lets_one_in
    count = amount(100_000)
    mutex = Thread::Mutex.new
    sum = 0
    add = lambda do |times, random|
      times.times do
        mutex.synchronize do
          before = sum
          dawdle(random)
          sum = before + 1
        end
        dawdle(random)
      end
    end
    on_scheduler do |scheduler|
      5.times { |index| scheduler.spawn { add.call(count / 8, random(index)) } }
      threads = Array.new(3) { |index| Thread.new { add.call(count / 8, random(10 + index)) } }
      scheduler.spawn { threads.each(&:join) }
      scheduler.run
      assert_at_rest(scheduler)
    end
    assert_equal count / 8 * 8, sum
  end

  def test_condition_variables_wake_whoever_waits
    count = amount(50_000)
    buffer = BoundedBuffer.new(3)
    ledger = GyreTest::Stress::Ledger.new(count)
    on_scheduler do |scheduler|
      takers = 3.times.map { Thread.new { take_all(buffer, ledger) } }
      4.times { scheduler.spawn { take_all(buffer, ledger) } }
      givers = Array.new(2) { |part| Thread.new { dealt(count, part, 4) { |number| buffer.push(number) } } }
      done = 0
      2.times { |part| scheduler.spawn { dealt(count, part + 2, 4) { |number| buffer.push(number) }.then { done += 1 } } }
      scheduler.spawn do
        givers.each(&:join)
        sleep 0.001 until done == 2
        buffer.close
        takers.each(&:join)
      end
      scheduler.run
      assert_at_rest(scheduler)
    end
    assert_all_once(ledger)
  end

  def test_joined_threads_give_their_values
    count = amount(3000)
    hand_over(count) do |ledger, scheduler|
      6.times do |part|
        random = random(part)
        scheduler.spawn do
          dealt(count, part, 6) { |number| ledger.got(Thread.new { dawdle(random).then { number } }.value) }
        end
      end
    end
  end

  private

  # Runs the block on a scheduler, and what it left there; then everything has been handed over.
  def hand_over(count)
    ledger = GyreTest::Stress::Ledger.new(count)
    on_scheduler do |scheduler|
      yield ledger, scheduler
      scheduler.run
      assert_at_rest(scheduler)
    end
    assert_all_once(ledger)
  end

  # The last one that ends closes what it passed on to.
  def pass_on(from, to, random)
    while (number = from.pop)
      dawdle(random)
      to.push(number)
    end
    @passing = (@passing || 4) - 1
    to.close and @passing = nil if @passing.zero?
  end

  def take_impatiently(queue, ledger, random)
    loop do
      number = Timeout.timeout(random.rand * 0.0008) { queue.pop }
      number ? ledger.got(number) : break
    rescue Timeout::Error
      retry
    end
  end
end
