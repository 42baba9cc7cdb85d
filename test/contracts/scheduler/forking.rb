# frozen_string_literal: true

# A forked child shares neither loop nor fibers with its parent.
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
        Timeout.timeout(5) do
          pid = in_child { sleep 0.001 }
          assert_predicate Process.wait2(pid).last, :success?
        end
        pid = Timeout.timeout(5) { fork }
        exit!(sleep(0.001).zero? ? 0 : 1) unless pid
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

    private

    # Forks; the child runs the block and nothing of the test suite's ends.
    def in_child
      fork do
        yield
        exit!(0)
      rescue Exception # rubocop:disable Lint/RescueException -- whatever it is, the child must not go on
        exit!(1)
      end
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
