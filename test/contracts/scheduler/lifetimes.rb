# frozen_string_literal: true

# Fibers that the program abandons: in the middle of a timeout, in every kind of wait, and after
# one. What stands on their stacks must be kept, or be gone from the loop, before the collector
# gives the stacks to others. Runs under the address sanitizer, too.
require "socket"
require "timeout"

module SchedulerContract
  # Fibers that nothing refers to any more.
  module Lifetimes
    def test_a_timeout_goes_with_the_fiber_that_was_abandoned_in_it
      in_fiber do |scheduler|
        abandon(200) { scheduler.timeout_after(0.02, Timeout::Error, "late") { Fiber.yield } }
        GC.start
        assert_operator scheduler.stats[:timers], :<, 100 unless backend == "select" # there the timer keeps the fiber until it fires
        others = fill_stacks
        sleep 0.04
        assert_equal [%w[1 2 3]] * others.size, others.map { |fiber| fiber.resume.map(&:chr) }
      end
    end

    def test_a_timeout_that_fires_in_a_suspended_fiber_concerns_no_other_one
      in_fiber do |scheduler|
        kept = Array.new(3) { Fiber.new { scheduler.timeout_after(0.001, Timeout::Error, "late") { Fiber.yield } }.tap(&:resume) }
        sleep 0.005
        kept.each { |fiber| assert_predicate fiber, :alive? }
        abandon(20) { scheduler.timeout_after(0.001, Timeout::Error, "late") { Fiber.yield } }
        sleep 0.005
        kept.clear
        GC.start
        fill_stacks
        sleep 0.001
      end
    end

    def test_a_timeout_that_fired_in_a_suspended_fiber_is_raised_at_its_next_wait
      in_fiber do |scheduler|
        fiber = Fiber.new do
          scheduler.timeout_after(0.001, Timeout::Error, "late") { Fiber.yield(:first).then { sleep HANG_S } }
        rescue Timeout::Error => error
          error.message
        end
        assert_equal :first, fiber.resume
        sleep 0.005
        assert_equal "late", fiber.resume
      end
    end

    def test_a_timeout_that_fired_in_a_suspended_fiber_ends_with_its_block
      in_fiber do |scheduler|
        fiber = Fiber.new do
          value = scheduler.timeout_after(0.001, Timeout::Error, "late") { Fiber.yield(:first).then { :value } }
          sleep(0.001).then { value }
        end
        assert_equal :first, fiber.resume
        sleep 0.005
        assert_equal :value, fiber.resume
      end
    end

    def test_a_timeout_reaches_the_wait_of_a_fiber_that_a_resumed_fiber_resumes
      since_ruby "3.3" # before, Ruby raises in no fiber that resumes another one
      skip "the portable engine knows the outermost and the innermost fiber" if backend == "select"
      in_fiber do |scheduler|
        middle = Fiber.new do
          scheduler.timeout_after(0.002, Timeout::Error, "late") { Fiber.new { sleep HANG_S }.resume }
        rescue Timeout::Error => error
          error.message
        end
        assert_equal "late", middle.resume
      end
    end

    def test_every_kind_of_wait_survives_that_its_fiber_is_abandoned
      ended = []
      with_pipe do |reader, writer|
        in_fiber do |scheduler|
          queue = Thread::Queue.new
          mutex = Thread::Mutex.new.tap(&:lock)
          keyed = Gyre::Loop.new
          abandoned_waits(scheduler, reader, writer, queue, mutex, keyed).each { |name, wait| abandon_waiting(ended, name, &wait) }
          3.times { GC.start.then { fill_stacks } }
          sleep 0.01
          8.times { queue.push(1) }
          mutex.unlock
          writer.write("x" * 8)
          keyed.emit(:key)
          sleep 0.001 until ended.size >= 9
        end
      end
      assert_equal %i[block keyed mutex queue read select sleep timeout wait], ended.sort
    end

    def test_a_fiber_is_collected_that_was_abandoned_after_its_waits
      in_fiber do |scheduler|
        with_pipe do |reader, writer|
          writer.write("x" * 200)
          100.times do
            Fiber.new do
              sleep 0
              reader.readpartial(1)
              scheduler.timeout_after(HANG_S, Timeout::Error, "late") { sleep 0.0001 }
              Fiber.yield
            end.resume
          end
          GC.start
          fill_stacks
          sleep 0.005
          assert_equal "x" * 100, reader.readpartial(200)
        end
      end
    end

    def test_an_unblock_for_a_fiber_that_is_gone_ends_no_wait_of_a_later_one
      in_fiber do |scheduler|
        500.times do
          [Fiber.new { nil }, Fiber.new { Fiber.yield }].each { |fiber| fiber.resume.then { scheduler.unblock(:test, fiber) } }
        end
        fill_stacks
        GC.start
        woken = Array.new(500) { Fiber.new { scheduler.block(:test, 0.00001) } }.count(&:resume)
        assert_equal 0, woken
      end
    end

    private

    # Another frame, so that this one's registers and slots refer to none of them.
    def abandon(count, &block)
      count.times { Fiber.new(&block).resume }
      nil
    end

    # A fiber of the program in a task of its own, which waits with it.
    def abandon_waiting(ended, name, &wait)
      Fiber.scheduler.spawn { Fiber.new { wait.call.then { ended << name } }.resume }
      nil
    end

    def abandoned_waits(scheduler, reader, writer, queue, mutex, keyed)
      {
        sleep: -> { sleep 0.005 }, block: -> { scheduler.block(:test, 0.005) }, queue: -> { queue.pop },
        mutex: -> { mutex.synchronize { :held } }, read: -> { reader.readpartial(1) },
        wait: -> { scheduler.io_wait(reader, IO::READABLE, nil) }, select: -> { IO.select([reader], [], [], 0.005) },
        timeout: -> { scheduler.timeout_after(0.002, Timeout::Error, "late") { scheduler.io_wait(writer, IO::PRIORITY, nil) } rescue nil },
        keyed: -> { keyed.next_event }
      }
    end

    # Fibers whose stacks lie where those of collected ones were; each stands in C code.
    def fill_stacks
      Array.new(50) { Fiber.new { [51, 49, 50].sort_by { |x| x == 50 ? Fiber.yield.then { x } : x } }.tap(&:resume) }
    end
  end
end
