# frozen_string_literal: true

# A forked child shares neither loop nor fibers with its parent.
require "io/wait"
require "support/forks"
require "timeout"

module SchedulerContract
  # process_fork, by way of fork.
  module Forking
    def test_the_child_of_a_fiber_waits_on_a_loop_of_its_own
      with_pipe do |reader, writer|
        with_scheduler do |scheduler|
          parents = 0
          scheduler.spawn { 5.times { sleep(0.002).then { parents += 1 } } }
          scheduler.spawn do
            pid = in_child { writer.write(child_work(scheduler)) }
            assert_predicate Process.wait2(pid).last, :success?
            assert_equal "slept read spawned", reader.readpartial(100)
          end
          scheduler.run
          assert_equal 5, parents
        end
      end
    end

    def test_the_parents_fibers_do_not_run_in_the_child
      with_pipe do |reader, writer|
        with_scheduler do |scheduler|
          scheduler.spawn { sleep(0.003).then { writer.write "p" } }
          scheduler.spawn { Process.wait(in_child { sleep 0.02 }) }
          scheduler.run
          assert_equal "p", reader.readpartial(10)
        end
      end
    end

    # Not all: the collector takes what looks like an object's address on a stack for one, which
    # keeps some; a leak keeps all.
    def test_the_child_keeps_nothing_that_the_parents_fibers_hold
      kind = Class.new
      in_fiber do |scheduler|
        hold(scheduler, kind, 50)
        pid = in_child do
          @held.clear
          3.times { GC.start.then { Array.new(50) { Fiber.new { 1 }.resume } } }
          exit!(ObjectSpace.each_object(kind).count < 50)
        end
        assert_predicate Process.wait2(pid).last, :success?
        assert_equal 50, ObjectSpace.each_object(kind).count
      ensure
        scheduler.unblock(:held, @held.shift) until @held.empty?
      end
    end

    # In a program of its own, for what a suite leaves on the stacks differs from run to run.
    def test_the_child_of_a_task_keeps_nothing_that_the_parents_tasks_hold
      assert_program "collected\n", <<~RUBY
        require "gyre"
        $stdout.sync = true
        ENV["GYRE_BACKEND"] = #{backend.inspect}
        Gyre.run do |task|
          waiting = 500.times.map { task.async { ("x" * 100_000).tap { sleep } } }
          if fork.nil?
            waiting = nil
            3.times { GC.start }
            count = ObjectSpace.each_object(String).count { |string| string.bytesize == 100_000 }
            puts count < 10 ? "collected" : count
            exit!
          end
          Process.wait
          waiting.each(&:stop)
        end
      RUBY
    end

    def test_the_child_of_a_program_that_drives_no_loop_gets_a_fresh_one
      with_pipe do |reader, writer|
        with_scheduler do |scheduler|
          scheduler.spawn { sleep(0.002).then { writer.write "p" } }
          pid = in_child do
            scheduler.spawn { sleep(0.001).then { writer.write "c" } } if Fiber.scheduler
            scheduler.run
          end
          Process.wait(pid)
          scheduler.run
          expected = Gem::Version.new(RUBY_VERSION) < Gem::Version.new("4") ? "cp" : "p"
          assert_equal expected, reader.readpartial(10)
        end
      end
    end

    def test_a_child_leaves_the_timeout_that_it_was_forked_in
      in_fiber do
        Timeout.timeout(HANG_S) do
          pid = in_child { sleep 0.001 }
          assert_predicate Process.wait2(pid).last, :success?
        end
        pid = Timeout.timeout(HANG_S) { fork }
        exit!(sleep(0.001) < HANG_S) unless pid
        assert_predicate Process.wait2(pid).last, :success?
      end
    end

    def test_what_the_child_does_to_its_loop_does_not_reach_the_parents
      with_scheduler do |scheduler|
        scheduler.spawn do
          3.times { Process.wait(in_child { scheduler.close }) }
          assert_kind_of Integer, sleep(0.001)
          refute_predicate scheduler, :closed?
        end
      end
    end

    def test_names_are_resolved_in_the_child_though_the_parents_threads_are_gone
      skip "GCC 12's sanitizer may leave a lock of its allocator taken in a forked child" if ENV["ASAN_OPTIONS"]
      in_fiber do |scheduler|
        scheduler.address_resolve("localhost") # starts a thread
        pid = in_child { exit!(2) unless scheduler.address_resolve("localhost") }
        assert_predicate Process.wait2(pid).last, :success?
      end
    end

    def test_a_forked_fiber_that_ends_ends_the_childs_loop
      code = <<~RUBY
        require "gyre/scheduler"
        scheduler = Gyre::Scheduler.new(#{backend.inspect})
        Fiber.set_scheduler(scheduler)
        say = ->(text) { $stdout.write("\#{text}\n") } # at once, for two processes write here
        Fiber.schedule { sleep 0.01; say.("parent's fiber") }
        Fiber.schedule { pid = fork { sleep 0.001; say.("child") }; Process.wait(pid); say.($?.exitstatus) }
        scheduler.run
        say.("end")
      RUBY
      output = ruby("-e", "$stdout.sync = true\n#{code}")
      assert_equal ["0", "child", "end", "parent's fiber"], output.out.lines(chomp: true).sort, output.err
    end

    def test_a_thread_beside_the_loop_may_fork_while_the_loop_sleeps
      with_pipe do |reader, writer|
        with_scheduler do |scheduler|
          queue = Thread::Queue.new
          steps = []
          scheduler.spawn { 2.times { steps << reader.read(1) } }
          scheduler.spawn { 2.times { steps << queue.pop } }
          forker = Thread.new do
            pids = Array.new(2) { in_child { run_scheduler { |own| writer.write(child_steps(own)) } } }
            pids.map { |pid| Process.wait2(pid).last.success? }.each { |success| queue.push(success) }
          end
          scheduler.run
          forker.join
          assert_equal ["s", "s", true, true], steps.sort_by(&:to_s)
        end
      end
    end

    def test_the_parents_waits_go_on_after_a_child_waited_for_the_same_descriptor
      with_pipe do |reader, writer|
        in_fiber do |scheduler|
          got = []
          read = Thread::Queue.new
          scheduler.spawn { 3.times { got << reader.readpartial(1) and read.push(true) } }
          3.times do |number|
            pid = in_child { assert_raises(Timeout::Error) { Timeout.timeout(0.002) { reader.wait_readable } }.then { scheduler.close } }
            assert_predicate Process.wait2(pid).last, :success?
            writer.write(number.to_s)
            read.pop
          end
          assert_equal %w[0 1 2], got
        end
      end
    end

    def test_a_child_ends_by_exit_exit_now_or_another_program
      in_fiber do |scheduler|
        parked = scheduler.spawn { assert_raises(Gyre::Stop) { sleep } }
        codes = [-> { exit 3 }, -> { exit! 4 }, -> { exec("exit 5") }, -> { abort }, -> { Process.kill(:KILL, Process.pid) }].map do |ending|
          Process.wait2(fork { $stderr.reopen(File::NULL).then { at_exit { exit! $!.status } }.then { ending.call } }).last
        end
        assert_equal [3, 4, 5, 1, nil], codes.map(&:exitstatus)
        scheduler.fiber_interrupt(parked, Gyre::Stop.new)
      end
    end

    def test_a_program_that_becomes_a_daemon_in_a_task_goes_on_there
      with_pipe do |reader, writer|
        code = <<~RUBY
          require "gyre"
          out = IO.for_fd(#{writer.fileno})
          Gyre.run do |task|
            reader, writer = IO.pipe
            sleeping = task.async { sleep(0.003).then { "slept" } }
            waiting = task.async { reader.gets.chomp }
            Process.daemon
            sleep 0.002
            writer.write("read\\n")
            out.write(waiting.wait, " ", sleeping.wait, system("exit 3") == false && `echo " system"`.chomp)
          end
        RUBY
        pid = Process.spawn({ "GYRE_BACKEND" => backend }, RbConfig.ruby, "-w", "-I#{GyreTest::Helpers::LIB}", "-e", code, writer => writer)
        writer.close
        assert_predicate Process.wait2(pid).last, :success?
        assert_equal "read slept system", reader.read
      end
    end

    def test_what_a_keyed_loop_watches_goes_on_in_the_daemon
      skip "the portable loop starts over in a daemon" if backend == "select"
      with_pipe do |reader, writer|
        code = <<~RUBY
          require "gyre"
          out = IO.for_fd(#{writer.fileno})
          outside = Gyre::Loop.new
          Gyre.run do
            reader, writer = IO.pipe
            loop = Gyre::Loop.new
            loop.emit(:queued)
            [loop, outside].each { |one| one.watch_io(:io, reader, false, false) }
            loop.watch_timer(:timer, 0.005, 0.005)
            loop.watch_signal(:signal, "USR1")
            Process.daemon
            GC.start
            out.write([loop, outside].map { |one| one.watching?(:io) }, loop.next_event, loop.next_event)
            loop.unwatch(:timer)
            Process.kill("USR1", Process.pid)
            out.write(loop.next_event)
            writer.write("x")
            keys = [loop.next_event, outside.next_event]
            before = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
            [loop, outside].each { |one| one.unwatch(:io) }
            sleep 0.2
            out.write(keys, Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - before < 0.1)
          end
          outside.watch_timer(:after, 0.001, 0)
          out.write(outside.next_event)
        RUBY
        pid = Process.spawn({ "GYRE_BACKEND" => backend }, RbConfig.ruby, "-w", "-I#{GyreTest::Helpers::LIB}", "-e", code, writer => writer)
        writer.close
        assert_predicate Process.wait2(pid).last, :success?
        assert_equal "[true, true]queuedtimersignal[:io, :io]trueafter", reader.read
      end
    end

    def test_a_daemon_does_work_that_no_thread_had_begun_and_fails_what_its_threads_leave_behind
      with_pipe do |reader, writer|
        code = <<~RUBY
          require "gyre"
          out = IO.for_fd(#{writer.fileno})
          Gyre.run do |task|
            begun = Thread::Queue.new
            left = Array.new(Gyre::Offload::Pool::READY) do
              task.async do
                Gyre::Offload.call { begun.push(true) && sleep }
              rescue Gyre::Error => error
                error.message[/thread ended when/]
              end
            end
            left.size.times { begun.pop }
            queued = task.async { Gyre::Offload.call { "done" } }
            Process.daemon
            out.write(left.map(&:wait).uniq.join, ", ", queued.wait)
          end
        RUBY
        pid = Process.spawn({ "GYRE_BACKEND" => backend }, RbConfig.ruby, "-w", "-I#{GyreTest::Helpers::LIB}", "-e", code, writer => writer)
        writer.close
        Process.wait(pid)
        assert reader.wait_readable(HANG_S), "the daemon hangs"
        assert_equal "thread ended when, done", reader.read
      end
    end

    # Who forks, how, what the child waits for, and how it ends.
    TABLE = [
      [:root, :block, %i[queue child], :exit], [:root, :plain, %i[limit lock], :error], [:root, :daemon, %i[pipe], :exit_elsewhere],
      [:task, :block, %i[result limit], :exit_elsewhere_waited], [:task, :plain, %i[queue pipe], :term_elsewhere],
      [:task, :daemon, %i[limit], :return], [:nested, :block, %i[lock pipe], :error], [:nested, :block, [], :exit_below_waited],
      [:nested, :plain, %i[command], :exit], [:nested, :daemon, %i[queue], :term], [:scheduled, :block, %i[result], :term_elsewhere],
      [:scheduled, :plain, %i[child lock], :exit_elsewhere_later], [:scheduled, :daemon, %i[result queue], :exit_elsewhere],
      [:run, :plain, %i[queue], :exit_elsewhere_later], [:run, :block, %i[limit], :exit_elsewhere_waited]
    ].freeze
    IN_THREADS = {} # by row

    def test_a_child_of_a_task_waits_and_ends_as_a_child_of_a_thread
      skip "needs Gyre::Orphans" unless Gyre::Native.available?
      rows = [GyreTest::Engines::NATIVE.first, "select"].include?(backend) ? TABLE : TABLE.each_slice(5).map(&:first)
      missing = rows - IN_THREADS.keys
      IN_THREADS.update(missing.zip(outcomes_of(missing)).to_h)
      complaints = rows.zip(outcomes_of(rows, backend)).filter_map do |row, found|
        "#{GyreTest::Forks::Story.new(*row)}\n  threads: #{IN_THREADS[row]}\n  tasks:   #{found}" unless found == IN_THREADS[row]
      end
      assert_empty complaints
    end

    private

    def outcomes_of(rows, backend = nil)
      result = ruby(GyreTest::Forks::PROGRAM, env: { "GYRE_BACKEND" => nil }, stdin: Marshal.dump([rows, backend]), within_s: 300)
      assert_predicate result.status, :success?, result.err
      Marshal.load(result.out)
    end

    # In a frame of its own, so that nothing of it stays in the caller's.
    def hold(scheduler, kind, count)
      @held = Array.new(count) do
        scheduler.spawn do
          object = kind.new
          scheduler.block(:held)
          object.hash
        end
      end
    end

    # Forks; the child runs the block and nothing of the test suite's ends.
    def in_child
      fork do
        yield
        exit!(0)
      rescue Exception # rubocop:disable Lint/RescueException -- whatever it is, the child must not go on
        exit!(1)
      end
    end

    def child_steps(scheduler)
      scheduler.spawn { sleep 0.001 }
      scheduler.run
      "s"
    end

    def child_work(scheduler)
      steps = []
      sleep 0.001
      steps << "slept"
      IO.pipe do |reader, writer|
        scheduler.spawn { sleep(0.001).then { writer.write "x" } }
        steps << "read" if reader.read(1) == "x"
      end
      scheduler.spawn { steps << "spawned" }
      steps.join(" ")
    end
  end
end
