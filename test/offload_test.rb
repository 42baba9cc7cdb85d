# frozen_string_literal: true

# Work in threads beside the loop, over both engines.
require "test_helper"
require "support/engines"
require "gyre/scheduler"

GyreTest::Engines.test_case("OffloadTest") do
  define_method(:in_fiber) do |&block|
    Thread.new do
      scheduler = Gyre::Scheduler.new(backend)
      Fiber.set_scheduler(scheduler)
      value = error = nil
      scheduler.spawn { value = block.call(scheduler) rescue error = $! }
      scheduler.run
      error ? raise(error) : value
    ensure
      Fiber.set_scheduler(nil)
    end.tap { |thread| thread.report_on_exception = false }.value
  end

  def test_without_a_scheduler_the_work_just_runs
    thread = nil
    assert_equal(:value, Gyre::Offload.call { (thread = Thread.current).then { :value } })
    assert_same Thread.current, thread
  end

  def test_any_callable_is_work
    thread = in_fiber { Gyre::Offload.run(-> { Thread.current }) }
    refute_same Thread.current, thread
  end

  # Ruby's turns of 100 ms would make it 200 ms.
  def test_a_busy_loop_of_a_server_lets_work_in_a_thread_go_on
    skip "each turn is 100 ms before Ruby 3.3" if RUBY_VERSION < "3.3"
    waits_s = in_fiber do |scheduler|
      Thread.current.priority = Gyre::Offload::PRIORITY
      done = false
      scheduler.spawn { 1000.times { Math.sqrt(2) }.then { sleep(0) } until done }
      Array.new(5) do
        began_s = Gyre::Clock.now
        Gyre::Offload.call { sleep(0.001) }
        Gyre::Clock.now - began_s
      end
    ensure
      done = true
    end
    assert_operator waits_s.min, :<, 0.1
  end

  def test_work_that_waits_gets_as_many_threads_as_allowed_and_no_more
    gate = Thread::Queue.new
    limit = Gyre::Offload::Pool::LIMIT
    in_fiber do |scheduler|
      done = 0
      (limit + 10).times { scheduler.spawn { Gyre::Offload.call { gate.pop }.then { done += 1 } } }
      eventually { gate.num_waiting == limit }
      sleep Gyre::Offload::Pool::PATIENCE_S * 2
      assert_equal limit, gate.num_waiting
      gate.close
      eventually { done == limit + 10 }
    end
  end

  def test_work_may_itself_wait_for_work_on_every_thread
    results = in_fiber do |scheduler|
      results = []
      count = Gyre::Offload::Pool::READY * 2
      inner = method(:in_fiber)
      count.times do |number|
        scheduler.spawn { results << Gyre::Offload.call { inner.call { Gyre::Offload.call { number } } } }
      end
      sleep 0.002 until results.size == count
      results
    end
    assert_equal results.size, results.uniq.size
  end

  def test_an_exception_of_the_work_reaches_its_caller
    assert_raises(IOError) { in_fiber { Gyre::Offload.call { raise IOError } } }
  end

  def test_work_without_a_waiter_is_ended
    in_fiber do |scheduler|
      state = nil
      fiber = scheduler.spawn do
        Gyre::Offload.call { begin; state = :running; sleep; ensure; state = :ended; end }
      rescue IOError
        nil
      end
      eventually { state }
      scheduler.fiber_interrupt(fiber, IOError.new)
      eventually { state == :ended }
      assert_equal(:next, Gyre::Offload.call { :next })
    end
  end

  def test_work_whose_end_is_to_be_seen_is_over_when_the_exception_gets_through
    in_fiber do |scheduler|
      begun = Thread::Queue.new
      ended = seen = false
      fiber = scheduler.spawn do
        Gyre::Offload.call(abandon: :seen) do
          begun.push(true)
          sleep
        ensure
          20.times { Thread.pass }
          ended = true
        end
      rescue IOError
        seen = ended
      end
      begun.pop
      scheduler.fiber_interrupt(fiber, IOError.new)
      eventually { seen }
    end
  end

  def test_work_that_has_to_be_finished_is_finished_before_an_exception_gets_through
    in_fiber do |scheduler|
      gate = Thread::Queue.new
      finished = raised = false
      fiber = scheduler.spawn do
        Gyre::Offload.call(abandon: false) { gate.pop.then { finished = true } }
      rescue IOError
        raised = finished
      end
      scheduler.fiber_interrupt(fiber, IOError.new)
      sleep 0.002
      refute raised
      gate.push(true)
      eventually { raised }
    end
  end

  def test_a_forked_child_has_threads_of_its_own
    in_fiber do
      before = Gyre::Offload.call { Thread.current }
      reader, writer = IO.pipe
      pid = fork do
        thread = Gyre::Offload.call { Thread.current }
        writer.write(thread.alive? && !thread.equal?(before) ? "its own" : "the parent's")
        exit!
      end
      writer.close
      assert_equal "its own", reader.read
      reader.close
      Process.wait(pid)
    end
  end
end
