# frozen_string_literal: true

# Fibers: how they start, in which order they run, what they find of their predecessors.

module SchedulerContract
  # spawn, Fiber.schedule, yield and the pool.
  module Spawning
    def test_a_spawned_fiber_runs_at_once_up_to_its_first_wait_and_then_the_caller_goes_on
      steps = []
      with_scheduler do |scheduler|
        scheduler.spawn do
          steps << :begin
          sleep 0.001
          steps << :end
        end
        steps << :caller
      end
      assert_equal %i[begin caller end], steps
    end

    def test_the_caller_goes_on_before_all_other_ready_fibers
      steps = []
      in_fiber do |scheduler|
        3.times { |number| scheduler.spawn { scheduler.yield.then { steps << number } } }
        scheduler.spawn { scheduler.yield }
        steps << :caller
      end
      assert_equal [:caller, 0, 1, 2], steps
    end

    def test_spawn_returns_the_fiber_that_runs_the_block
      with_scheduler do |scheduler|
        inside = nil
        outside = scheduler.spawn { inside = Fiber.current }
        assert_same inside, outside
        assert_kind_of Fiber, outside
      end
    end

    def test_spawn_gives_the_arguments_to_the_callable
      with_scheduler do |scheduler|
        got = []
        scheduler.spawn(got.method(:push), 1, [2, 3], { four: 4 })
        scheduler.spawn(->(*arguments) { got << arguments.size })
        scheduler.spawn(nil, 5) { |number| got << number }
        assert_equal [1, [2, 3], { four: 4 }, 0, 5], got
      end
    end

    def test_fiber_schedule_runs_a_non_blocking_fiber_under_this_scheduler
      with_scheduler do |scheduler|
        seen = nil
        Fiber.schedule { seen = [Fiber.current.blocking?, Fiber.scheduler, Fiber.current_scheduler] }
        assert_equal [false, scheduler, scheduler], seen
      end
    end

    def test_a_spawned_fiber_may_spawn_and_so_on
      deepest = 0
      with_scheduler do |scheduler|
        descend = lambda do |depth|
          deepest = depth
          scheduler.spawn(descend, depth + 1) if depth < 200
          sleep 0.001
        end
        scheduler.spawn(descend, 1)
      end
      assert_equal 200, deepest
    end

    def test_fibers_wake_in_the_order_in_which_they_became_ready
      order = []
      with_scheduler do |scheduler|
        20.times { |number| scheduler.spawn { 3.times { scheduler.yield }.then { order << number } } }
      end
      assert_equal (0...20).to_a, order
    end

    def test_yield_lets_every_other_ready_fiber_run_first
      turns = []
      with_scheduler do |scheduler|
        %i[a b c].each { |name| scheduler.spawn { 3.times { scheduler.yield.tap { turns << name } } } }
      end
      assert_equal %i[a b c] * 3, turns
    end

    def test_a_sleep_of_zero_seconds_is_a_yield
      turns = []
      with_scheduler { %i[a b].each { |name| Fiber.schedule { 3.times { sleep(0).then { turns << name } } } } }
      assert_equal %i[a b] * 3, turns
    end

    def test_fibers_that_are_always_ready_starve_neither_timers_nor_descriptors
      with_pipe do |reader, writer|
        woken = []
        with_scheduler do |scheduler|
          2.times { scheduler.spawn { scheduler.yield until woken.size == 2 } }
          scheduler.spawn { sleep(0.005).then { woken << :timer } }
          scheduler.spawn { woken << reader.getc }
          writer.write "x"
        end
        assert_equal ["x", :timer], woken.sort_by(&:to_s).reverse
      end
    end

    def test_a_fiber_that_spawns_without_end_does_not_starve_others
      count = 0
      with_scheduler do |scheduler|
        done = false
        scheduler.spawn { (sleep(0.001) until count > 10).then { done = true } }
        scheduler.spawn { scheduler.spawn { scheduler.yield.then { count += 1 } }.then { scheduler.yield } until done }
      end
    end

    def test_five_thousand_fibers_sleep_at_once
      asleep = awake = 0
      with_scheduler do
        5_000.times { Fiber.schedule { (asleep += 1).then { sleep 0.01 }.then { awake += 1 } } }
        assert_equal [5_000, 0], [asleep, awake]
      end
      assert_equal 5_000, awake
    end

    def test_ended_fibers_are_used_again
      skip "the portable engine has no pool" if backend == "select"

      with_scheduler do |scheduler|
        fibers = Array.new(100) { scheduler.spawn { nil } }
        assert_operator fibers.uniq(&:object_id).size, :<=, 2
      end
    end

    def test_fiber_locals_do_not_outlive_their_job
      with_scheduler do |scheduler|
        scheduler.spawn { Thread.current[:left_behind] = true }
        found = []
        10.times { scheduler.spawn { found << Thread.current[:left_behind] } }
        assert_equal [nil] * 10, found
      end
    end

    def test_fiber_storage_comes_from_the_spawner_and_does_not_outlive_the_job
      since_ruby "3.2"
      found = []
      with_scheduler do |scheduler|
        scheduler.spawn do
          Fiber[:request] = 1
          scheduler.spawn do
            found << Fiber[:request]
            Fiber[:request] = 2
            Fiber[:left_behind] = true
          end
          found << Fiber[:request]
        end
        scheduler.spawn { found << Fiber[:request] << Fiber[:left_behind] }
      end
      assert_equal [1, 1, nil, nil], found
    end

    def test_fiber_storage_can_be_given_to_fiber_schedule
      since_ruby "3.2"
      with_scheduler do
        found = nil
        Fiber.schedule(storage: { given: 1 }) { found = Fiber[:given] }
        assert_equal 1, found
      end
    end

    def test_what_fiber_schedule_returns_ends_with_its_block_and_is_not_used_again
      in_fiber do
        at_once = Fiber.schedule { 1 }
        waited = Fiber.schedule { sleep 0.001 }
        sleep 0.005
        assert_equal [false, false], [at_once, waited].map(&:alive?)
        refute_includes [at_once, waited], Fiber.schedule { 1 }
      end
    end

    def test_an_old_handle_of_fiber_schedule_hits_no_other_job
      in_fiber do |scheduler|
        old = Fiber.schedule { 1 }
        slept = nil
        Fiber.schedule { slept = sleep(0.002) }
        scheduler.fiber_interrupt(old, RuntimeError.new("late"))
        assert_raises(FiberError) { old.raise("late") }
        old.kill if old.respond_to?(:kill)
        sleep 0.005
        assert slept
      end
    end

    def test_a_pooled_fiber_that_is_kept_beyond_its_job_has_ended_for_the_program
      reached = in_fiber do |scheduler|
        kept = scheduler.spawn { 1 }
        assert_equal "dead fiber called", assert_raises(FiberError) { kept.raise("late") }.message
        assert_raises(FiberError) { kept.transfer }
        assert_raises(FiberError) { kept.resume }
        assert_same kept, kept.kill if kept.respond_to?(:kill)
        refute kept.alive?
        again = scheduler.spawn { sleep 0.001 }
        backend == "select" || (kept.equal?(again) && kept.alive?)
      end
      assert reached, "the caller was lost"
    end

    # The collector does not count stacks, and hardly runs by itself where there is much that lives.
    def test_fibers_that_end_do_not_use_up_the_stacks_of_a_process_with_a_large_heap
      skip "the portable engine leaves stacks to the collector" if backend == "select"

      large = Array.new(300_000) { |number| [number.to_s] }
      in_fiber { assert_equal 40_000, 40_000.times.count { Fiber.schedule { 1 } } }
      assert_equal 300_000, large.size
    end

    # A minor collection leaves what an old object referred to at an earlier one.
    def test_ended_fibers_that_an_old_object_refers_to_do_not_use_up_the_stacks
      skip "the portable engine leaves stacks to the collector" if backend == "select"

      kept = Array.new(3000)
      4.times { GC.start }
      in_fiber { 60_000.times { |number| kept[number % 3000] = Fiber.schedule { 1 } } }
      assert kept.none?(&:alive?)
    end

    # Each collection reads the stacks of all fibers that live.
    def test_stacks_of_ended_fibers_are_collected_less_often_while_many_fibers_live
      skip "the portable engine leaves stacks to the collector" if backend == "select"

      in_fiber do
        done = Thread::Queue.new
        6000.times { Fiber.schedule { done.pop } }
        3.times { GC.start }
        before = GC.count
        40_000.times { Fiber.schedule { 1 } }
        count = GC.count - before
        done.close
        assert_operator count, :<=, 8
      end
    end

    def test_stacks_are_not_collected_where_the_program_has_disabled_collections
      in_fiber do
        GC.disable
        before = GC.count
        10_000.times { Fiber.schedule { 1 } }
        assert_equal [before, true], [GC.count, GC.enable]
      end
    ensure
      GC.enable
    end

    def test_a_pooled_fiber_begins_without_the_storage_of_the_one_that_made_it
      since_ruby "3.2"
      found = []
      in_fiber do |scheduler|
        Fiber[:user] = :alice
        3.times { Fiber.schedule(storage: nil) { found << Fiber[:user] } }
        3.times { Fiber.schedule(storage: { a: 1 }) { found << Fiber[:user] << Fiber[:a] } }
        Fiber[:user] = nil
        scheduler.spawn { found << Fiber[:user] }
        Fiber.schedule { found << Fiber[:user] }
      end
      assert_equal [nil, nil, nil, nil, 1, nil, 1, nil, 1, nil, nil], found
    end

    # The program may have kept the fibers that the pool has given up, and enter them: there is
    # nothing for them to do.
    def test_the_pool_shrinks_after_a_burst_and_its_former_fibers_end_when_they_are_entered
      skip "the portable engine has no pool" if backend == "select"

      enter, alive = %i[transfer alive?].map { |name| Fiber.instance_method(name) }
      with_scheduler do |scheduler|
        fibers = Array.new(100) { scheduler.spawn { sleep 0.001 } }
        scheduler.run
        assert_equal 100, scheduler.stats[:idle_fibers]
        assert_equal 0, scheduler.stats[:timers] # the pool's own does not count
        scheduler.spawn { sleep 0.01 until scheduler.stats[:idle_fibers] <= 16 }
        scheduler.run
        fibers.each { |fiber| enter.bind_call(fiber) }
        assert fibers.none? { |fiber| alive.bind_call(fiber) }
        assert_equal(:value, scheduler.spawn { sleep 0.001 }.then { scheduler.run && :value })
      end
    end

    # In a program of its own: most of the stacks are those of the burst. Each had touched more than
    # 100 KiB.
    def test_deep_stacks_of_idle_fibers_are_given_back
      skip "the portable engine has no stacks of its own to give back" if backend == "select"
      skip "needs /proc/self/smaps" unless File.exist?("/proc/self/smaps")

      assert_program "given back\n", <<~RUBY
        Fiber.set_scheduler(scheduler = Gyre::Scheduler.new(#{backend.inspect}))
        deep = ->(n) { n.zero? ? sleep(0.001) : [1, 2].sort_by { |x| x == 2 ? (deep.call(n - 1) && 1) : x } }
        ended = 0
        scheduler.spawn do
          100.times { scheduler.spawn { deep.call(50) && ended += 1 } }
          sleep 0.01 until ended == 100
          sleep 0.01 until scheduler.stats[:idle_fibers] <= 16
        end
        scheduler.run
        stack_kb = RubyVM::DEFAULT_PARAMS.values_at(:fiber_vm_stack_size, :fiber_machine_stack_size).sum / 1024
        sizes = File.read("/proc/self/smaps").scan(/^Size: +([0-9]+) kB.*?^Rss: +([0-9]+) kB/m).map { |pair| pair.map(&:to_i) }
        resident_kb = sizes.filter_map { |size, rss| rss if size.between?(stack_kb, stack_kb + 4) }.sort
        kb = resident_kb.last(100).first
        puts kb.between?(1, 16) ? "given back" : kb
      RUBY
    end

    def test_a_loop_of_yields_without_a_driver_asks_the_kernel
      with_pipe do |reader, writer|
        with_scheduler do
          read = false
          Fiber.new(blocking: false) do
            Fiber.schedule { read = reader.read(1) }
            writer.write("x")
            yields = 0
            (yields += 1) && sleep(0) until read || yields > 10_000
          end.resume
          assert_equal "x", read
        end
      end
    end

    def test_a_blocking_fiber_can_be_asked_for
      with_scheduler do
        blocking = nil
        Fiber.schedule(blocking: true) { blocking = Fiber.current.blocking? }
        assert blocking
      end
    end

    def test_an_inner_fiber_that_sleeps_comes_back_to_the_one_that_resumed_it
      steps = []
      with_scheduler do
        Fiber.schedule do
          inner = Fiber.new { sleep(0.002).then { Fiber.yield :first }.then { :second } }
          steps << inner.resume << inner.resume
        end
        Fiber.schedule { steps << :other }
      end
      assert_equal %i[other first second], steps
    end

    def test_an_enumerator_that_sleeps_comes_back_to_its_reader
      numbers = Enumerator.new { |yielder| 3.times { |number| sleep(0.001).then { yielder << number } } }
      assert_equal([0, 1, 2], in_fiber { Array.new(3) { numbers.next } })
    end

    def test_an_enumerators_sleep_does_not_stop_others
      since_ruby "3.2" # before, the fibers of enumerators are blocking ones
      steps = []
      with_scheduler do
        Fiber.schedule { steps << Enumerator.new { |yielder| sleep(0.002).then { yielder << :slow } }.next }
        Fiber.schedule { steps << :quick }
      end
      assert_equal %i[quick slow], steps
    end

    def test_fiber_yield_in_a_spawned_fiber_is_an_error_of_that_fiber_only
      reports = []
      with_scheduler(reports: reports) do |scheduler|
        scheduler.spawn { Fiber.yield }
        scheduler.spawn { sleep 0.001 }
      end
      assert_equal [FiberError], reports.map(&:class)
    end

    def test_a_fiber_of_the_program_drives_the_loop_itself_when_no_other_does
      order = []
      with_scheduler do
        Fiber.schedule { sleep(0.002).then { order << :spawned } }
        order << Fiber.new { sleep(0.005).then { :resumed } }.resume
        order << :after
      end
      assert_equal %i[spawned resumed after], order
    end

    def test_fibers_that_end_while_another_fiber_drives_disturb_no_other
      finished = 0
      with_scheduler do |scheduler|
        Fiber.new do
          1_500.times { scheduler.spawn { sleep(0.01).then { finished += 1 } } } # more than any pool keeps
          sleep 0.1
          finished += 1
        end.resume
        assert_operator finished, :>=, 1
      end
      assert_equal 1_501, finished
    end

    def test_another_thread_gets_an_error_and_takes_no_ready_fiber_off_the_queue
      turns = Array.new(5, 0)
      with_scheduler do |scheduler|
        turns.each_index { |index| scheduler.spawn { 200.times { sleep(0).then { turns[index] += 1 } } } }
        attempts = [-> { scheduler.block(:nothing, 0.001) }, -> { scheduler.kernel_sleep(0) }, -> { scheduler.kernel_sleep(0.001) },
                    -> { scheduler.spawn { flunk "it ran" } }, -> { scheduler.io_wait($stdin, IO::READABLE, 0.001) }, -> { scheduler.run }]
        in_thread = -> { attempts.map { |attempt| assert_raises(ThreadError) { attempt.call }.message }.uniq }
        assert_match(/belong to another thread/, Thread.new(&in_thread).value.join)
        scheduler.spawn { 20.times { Thread.new(&in_thread).join } }
      end
      assert_equal [200] * 5, turns
    end

    def test_a_scheduler_of_a_thread_that_has_ended_may_be_taken_over
      scheduler = collecting_scheduler([])
      Thread.new { scheduler.spawn { :nothing } }.join
      Thread.new { scheduler.spawn { sleep 0 }.then { scheduler.run } }.join
      scheduler.close
    end
  end
end
