# frozen_string_literal: true

# How many threads the pool has. Jobs here are held at a gate, and ask for more threads as a waiting
# fiber does.
require "test_helper"
require "gyre/offload"

class OffloadPoolTest < Minitest::Test
  # Runs until the gate lets it.
  class Job
    attr_reader :begun

    def initialize(gate)
      @gate = gate
    end

    def run
      @begun = true
      @gate.pop
    end
  end

  def setup
    @gate = Thread::Queue.new
    @jobs = []
  end

  def teardown
    @gate.close
  end

  def test_a_thread_for_each_job_up_to_the_ready_ones
    pool = pool(ready: 2)
    assert_equal 0, pool.size
    enqueue(pool, 5)
    begun(2)
    assert_equal 2, pool.size
  end

  def test_a_thread_that_is_free_is_used_again
    pool = pool(ready: 2)
    3.times do |number|
      enqueue(pool, 1)
      begun(number + 1)
      @gate.push(true)
      eventually { @gate.num_waiting.zero? && idle(pool) == 1 }
    end
    assert_equal 1, pool.size
  end

  def test_a_job_that_waits_gets_another_thread_up_to_the_limit
    pool = pool(ready: 1, limit: 3, standstill_s: 60)
    enqueue(pool, 5)
    5.times { pool.relieve }
    begun(3)
    assert_equal 3, pool.size
    assert_equal 60, pool.patience_s
  end

  def test_no_thread_is_made_for_a_job_that_another_one_takes
    pool = pool(ready: 1, limit: 3)
    enqueue(pool, 1)
    begun(1)
    pool.relieve
    assert_equal 1, pool.size
  end

  def test_beyond_the_limit_there_is_one_more_when_nothing_moves
    pool = pool(ready: 1, limit: 1, standstill_s: 0.02)
    enqueue(pool, 3)
    begun(1)
    pool.relieve
    eventually { (pool.relieve || @jobs.count(&:begun)) && @jobs.count(&:begun) == 3 }
    assert_equal 3, pool.size
  end

  def test_beyond_the_limit_there_is_no_more_while_jobs_begin
    pool = pool(ready: 1, limit: 1, standstill_s: 60)
    enqueue(pool, 3)
    3.times { pool.relieve }
    begun(1)
    assert_equal 1, pool.size
  end

  def test_threads_beyond_the_ready_ones_end_without_work
    pool = pool(ready: 2, idle_timeout_s: 0.01)
    enqueue(pool, 5)
    3.times { pool.relieve }
    begun(5)
    5.times { @gate.push(true) }
    eventually { pool.size == 2 }
    enqueue(pool, 2)
    begun(7)
    assert_equal 2, pool.size
  end

  def test_the_ready_ones_sleep_without_a_limit_of_time
    pool = pool(ready: 2, idle_timeout_s: 0.01)
    enqueue(pool, 2)
    2.times { @gate.push(true) }
    eventually { idle(pool) == 2 && threads(pool).map(&:status) == ["sleep", "sleep"] }
    assert_equal(%w[sleep_forever], threads(pool).map { |thread| thread.inspect[/sleep\w*/] }.uniq)
  end

  def test_a_killed_thread_does_not_count
    pool = pool(ready: 1)
    enqueue(pool, 1)
    begun(1)
    threads(pool).first.kill
    eventually { pool.size.zero? }
    enqueue(pool, 1)
    begun(2)
  end

  private

  def pool(**options)
    Gyre::Offload::Pool.new(idle_timeout_s: 1, **options)
  end

  def enqueue(pool, count)
    count.times { @jobs << Job.new(@gate).tap { |job| pool.enqueue(job) } }
  end

  def begun(count)
    eventually { @jobs.count(&:begun) == count }
  end

  def idle(pool)
    pool.instance_variable_get(:@idle)
  end

  def threads(pool)
    pool.instance_variable_get(:@threads)
  end
end
