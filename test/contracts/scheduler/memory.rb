# frozen_string_literal: true

# The garbage collector at its worst, and what must not stay alive.
require "timeout"

module SchedulerContract
  # Short runs under GC.stress and compaction; nothing kept.
  module Memory
    # In a program of its own: a collection of the suite's heap takes too long to do hundreds of
    # them.
    def test_everything_survives_a_collection_at_every_allocation
      assert_program "block queue read sleep timeout\n", <<~RUBY
        require "contracts/scheduler/memory"
        include SchedulerContract::Memory
        scheduler = Gyre::Scheduler.new(#{backend.inspect})
        Fiber.set_scheduler(scheduler)
        GC.stress = true
        steps = bit_of_everything(scheduler, *IO.pipe)
        scheduler.run
        GC.stress = false
        puts steps.sort.join(" ")
      RUBY
    end

    def test_everything_survives_compaction
      skip "this Ruby does not compact, or crashes when it does" unless compacts?
      pipes = Array.new(6) { IO.pipe }
      steps = with_scheduler do |scheduler|
        scheduler.spawn { 20.times { GC.compact.then { scheduler.yield } } }
        steps = pipes.map { |reader, writer| bit_of_everything(scheduler, reader, writer).tap { GC.compact } }
        scheduler.run
        steps
      end
      assert_equal [%i[block queue read sleep timeout]] * 6, steps.map(&:sort)
    ensure
      pipes&.flatten&.each(&:close)
    end

    def test_a_pooled_fiber_keeps_nothing_of_its_earlier_jobs_alive
      kind = Class.new
      with_scheduler do |scheduler|
        spawn_with_objects(scheduler, kind)
        scheduler.run
        spawn_with_objects(scheduler, Object) # what the last job left on the fibers' stacks may stay
        scheduler.run
        GC.start
        assert_operator ObjectSpace.each_object(kind).count, :<, 60
      end
    end

    # In a program of its own: the suite's stacks hold on to this and that.
    def test_closed_schedulers_and_their_fibers_are_collected
      assert_program "collected\n", <<~RUBY
        make = lambda do
          Fiber.set_scheduler(Gyre::Scheduler.new(#{backend.inspect}))
          50.times { Fiber.schedule { sleep 0.0001 } }
        end
        10.times { Thread.new(&make).join }
        GC.start
        fibers = ObjectSpace.each_object(Fiber).count
        puts fibers < 150 ? "collected" : fibers
      RUBY
    end

    def test_a_closed_scheduler_that_is_kept_keeps_no_idle_fibers
      assert_program "collected\n", <<~RUBY
        kept = Thread.new do
          scheduler = Gyre::Scheduler.new(#{backend.inspect})
          Fiber.set_scheduler(scheduler)
          50.times { scheduler.spawn { sleep 0.0001 } }
          scheduler
        end.value
        GC.start
        fibers = ObjectSpace.each_object(Fiber).count
        puts kept.closed? && fibers < 25 ? "collected" : fibers
      RUBY
    end

    private

    def bit_of_everything(scheduler, reader, writer)
      steps = []
      queue = Thread::Queue.new
      scheduler.spawn { steps << :read if reader.gets == "line\n" }
      scheduler.spawn { steps << queue.pop }
      blocked = scheduler.spawn { steps << :block if scheduler.block(:test, 1000) }
      scheduler.spawn { Timeout.timeout(0.001) { sleep } rescue steps << :timeout }
      scheduler.spawn do
        sleep 0.001
        steps << :sleep
        writer.write "line\n"
        queue.push(:queue)
        scheduler.unblock(:test, blocked)
      end
      steps
    end

    def spawn_with_objects(scheduler, kind)
      100.times { scheduler.spawn(->(given) { sleep(0.0001).then { given.hash } }, kind.new) }
    end
  end
end
