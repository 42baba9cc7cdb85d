# frozen_string_literal: true

# Exceptions from outside: fiber_interrupt for one fiber; Interrupt, Thread#raise and Thread#kill
# for the thread.
require "io/wait"

module SchedulerContract
  # fiber_interrupt, and what leaves through run.
  module Interrupts
    # No StandardError, as a cancellation is.
    class Cancelled < Exception # rubocop:disable Lint/InheritException
    end

    def test_an_exception_of_fiber_raise_has_the_cause_that_it_was_given
      in_fiber do |scheduler|
        errors = []
        fiber = scheduler.spawn { 2.times { scheduler.block(:test) rescue errors << $! } }
        fiber.raise(RuntimeError, "given", cause: IOError.new("why"))
        begin
          raise "outer"
        rescue RuntimeError
          fiber.raise(ArgumentError, "implied")
        end
        causes = errors.map { |error| error.cause&.message }
        assert_equal ["why", ("outer" if RUBY_VERSION >= "4")], causes
        assert_match(/interrupts\.rb/, errors.first.backtrace.join("\n"))
      end
    end

    # A block under this timing: what the fiber did, of [at the wait, after it, after the block].
    def masked(timing, of: Cancelled, inner: nil)
      steps = []
      in_fiber do |scheduler|
        fiber = scheduler.spawn do
          Thread.handle_interrupt(of => timing) do
            scheduler.block(:test)
            steps << :waited
            Thread.handle_interrupt(of => inner) { steps << :inside } if inner
            steps << :inner
          end
          steps << :ended
        rescue Cancelled
          steps << :cancelled
        end
        scheduler.fiber_interrupt(fiber, Cancelled.new)
        scheduler.yield
        scheduler.unblock(:test, fiber)
      end
      steps
    end

    def test_an_interrupt_heeds_its_mask
      assert_equal %i[cancelled], masked(:immediate)
      assert_equal %i[cancelled], masked(:on_blocking)
      assert_equal %i[cancelled], masked(:never, of: ArgumentError)
      assert_equal %i[waited inner cancelled], masked(:never)
      assert_equal %i[waited inner cancelled], masked(:never, of: Object)
      assert_equal %i[waited cancelled], masked(:never, inner: :immediate)
    end

    def test_a_mask_is_its_fibers_alone
      in_fiber do |scheduler|
        Thread.handle_interrupt(Cancelled => :never) do
          other = scheduler.spawn { assert_raises(Cancelled) { scheduler.block(:test) } }
          scheduler.fiber_interrupt(other, Cancelled.new)
          scheduler.yield
          refute_predicate other, :alive?
        end
      end
    end

    def test_a_mask_around_a_resumed_fiber_holds_in_it
      since_ruby "3.2"
      steps = []
      in_fiber do |scheduler|
        fiber = scheduler.spawn do
          inner = Fiber.new { scheduler.block(:test).then { steps << :waited } }
          Thread.handle_interrupt(Cancelled => :never) { inner.resume }
        rescue Cancelled
          steps << :cancelled
        end
        scheduler.fiber_interrupt(fiber, Cancelled.new)
        scheduler.yield
        scheduler.unblock(:test, scheduler.waiting_in(fiber))
      end
      assert_equal %i[waited cancelled], steps
    end

    def test_a_close_is_not_masked
      with_pipe do |reader, _|
        in_fiber do |scheduler|
          error = nil
          scheduler.spawn { Thread.handle_interrupt(Exception => :never) { reader.read(1) rescue error = $! } }
          reader.close
          sleep(0.001) until error # before Ruby 4.0 in a later turn
          assert_kind_of IOError, error
        end
      end
    end

    def test_an_exception_of_fiber_raise_that_is_frozen_or_the_cause_of_the_present_one_is_raised_as_it_is
      in_fiber do |scheduler|
        errors = []
        fiber = scheduler.spawn { 2.times { scheduler.block(:test) rescue errors << $! } }
        given = [IOError.new("cause of the present one"), IOError.new("frozen").freeze]
        begin
          raise given.first
        rescue IOError
          begin
            raise "present"
          rescue RuntimeError
            given.each { |error| fiber.raise(error) }
          end
        end
        assert_equal given.map(&:message), errors.map(&:message)
        assert_nil errors.first.cause
      end
    end

    def test_the_caller_of_fiber_raise_goes_on_after_the_fiber_that_waits
      steps = []
      in_fiber do |scheduler|
        fiber = scheduler.spawn do
          sleep
        rescue IOError => error
          steps << error.message << error.backtrace.any? { |line| line.include?("sleep") }
        end
        fiber.raise(IOError, "from outside")
        steps << :after
        fiber = scheduler.spawn { Fiber.new { sleep }.resume }
        steps << scheduler.waiting_in(fiber).equal?(fiber)
      ensure
        scheduler.fiber_interrupt(fiber, Gyre::Stop.new)
      end
      assert_equal ["from outside", true, :after, false], steps
    end

    def test_the_caller_of_fiber_kill_goes_on_after_the_fiber_that_waits
      assert_killed { sleep }
    end

    def test_a_fiber_that_waits_inside_of_an_enumerator_is_killed_and_the_caller_goes_on
      assert_killed { Enumerator.new { |yielder| yielder << sleep }.next }
    end

    def test_a_fiber_that_waits_inside_of_a_fiber_of_a_fiber_is_killed_and_the_caller_goes_on
      assert_killed { Fiber.new { Fiber.new { sleep }.resume }.resume }
    end

    # Kills a fiber in the block's wait: it runs its ensure, then the caller goes on.
    def assert_killed
      since_ruby "3.3"
      steps = []
      in_fiber do |scheduler|
        fiber = scheduler.spawn do
          yield
          steps << :slept
        ensure
          steps << :ensured
        end
        fiber.kill
        steps << :after << fiber.alive?
        sleep 0.001
      end
      assert_equal [:ensured, :after, false], steps
    end

    def test_a_question_to_the_driver_while_an_exception_is_raised_loses_no_fiber
      steps = []
      with_scheduler do |scheduler|
        driver = Fiber.current
        scheduler.spawn { 10.times { sleep 0.001 }.then { steps << :slept } }
        scheduler.spawn do
          scheduler.timeout_after(0.003, Timeout::Error, "late") { sleep }
        rescue Timeout::Error
          steps << scheduler.ask(driver) { :answer }
        end
        scheduler.run
      end
      assert_equal %i[answer slept], steps
    end

    # Timeout::Error of Ruby 3.1 has such a method. What came in it left `run`, and the timeout was
    # lost.
    def test_what_comes_for_the_thread_in_a_method_of_an_exception_loses_neither
      meanwhile = Class.new(StandardError)
      kind = Class.new(IOError) do
        define_method(:exception) { |*| @called ? self : (@called = true) && Thread.current.raise(meanwhile) }
      end
      got = []
      in_fiber do |scheduler|
        fiber = scheduler.spawn { 2.times { sleep rescue got << $!.class } }
        scheduler.fiber_interrupt(fiber, kind.new("own"))
        sleep 0.001
      end
      assert_equal [meanwhile, kind], got
    end

    def test_several_exceptions_for_one_fiber_come_one_after_the_other
      got = []
      in_fiber do |scheduler|
        fiber = scheduler.spawn do
          3.times { scheduler.block(:test, HANG_S) rescue got << $!.message }
        end
        %w[a b c].each { |text| scheduler.fiber_interrupt(fiber, IOError.new(text)) }
        sleep 0.005
      end
      assert_equal %w[a b c], got
    end

    def test_what_cannot_be_interrupted_or_raised_is_reported_to_the_caller_at_once
      in_fiber do |scheduler|
        assert_equal "fiber expected, not NilClass", assert_raises(TypeError) { scheduler.fiber_interrupt(nil, IOError.new) }.message
        error = assert_raises(TypeError) { scheduler.fiber_interrupt(Fiber.current, "late") }
        assert_equal "exception expected, not String", error.message
      end
    end

    def test_a_fiber_that_is_stopped_is_not_a_failure
      reports = []
      in_fiber(reports: reports) do |scheduler|
        fiber = scheduler.spawn { sleep }
        scheduler.fiber_interrupt(fiber, Gyre::Stop.new)
        sleep 0.001
      end
      assert_empty reports
    end

    def test_an_interrupt_is_raised_at_every_kind_of_wait
      with_endless_waits do |scheduler, reader, held, thread, child|
        waits = [
          -> { sleep HANG_S }, -> { sleep }, -> { reader.read }, -> { scheduler.io_wait(reader, IO::READABLE, HANG_S) },
          -> { Thread::Queue.new.pop }, -> { held.lock }, -> { scheduler.block(:test, HANG_S) }, -> { loop { scheduler.yield } },
          -> { thread.join }, -> { Process.wait(child) }
        ]
        waiting = waits.size
        fibers = waits.map do |wait|
          scheduler.spawn do
            assert_raises(Cancelled, wait.source_location.inspect) { wait.call }
          ensure
            waiting -= 1
          end
        end
        fibers.each { |fiber| scheduler.fiber_interrupt(fiber, Cancelled.new) }
        scheduler.run_until { waiting.zero? }
      end
    end

    def test_raise_at_a_waiting_fiber_returns_when_that_has_ended
      [-> { sleep }, -> { Thread::Queue.new.pop }, -> { Thread::Mutex.new.synchronize { sleep } }].each do |wait|
        error = nil
        with_scheduler do |scheduler|
          fiber = scheduler.spawn { wait.call rescue error = $! }
          fiber.raise(IOError)
          assert_kind_of IOError, error
          scheduler.spawn { sleep 0.001 }
        end
      end
    end

    def test_an_interrupt_may_come_from_another_thread
      in_fiber do |scheduler|
        20.times do
          fiber = scheduler.spawn { assert_raises(Cancelled) { sleep HANG_S } }
          Thread.new { scheduler.fiber_interrupt(fiber, Cancelled.new("from a thread")) }.join
          scheduler.yield
        end
      end
    end

    def test_an_interrupted_wait_leaves_nothing
      with_pipe do |reader, writer|
        in_fiber do |scheduler|
          fiber = scheduler.spawn { assert_raises(Cancelled) { scheduler.io_wait(reader, IO::READABLE, HANG_S) } }
          scheduler.fiber_interrupt(fiber, Cancelled.new)
          scheduler.yield until scheduler.stats[:tasks] == 1
          assert_equal 0, scheduler.stats[:timers]
          writer.write "x"
          assert_equal IO::READABLE, scheduler.io_wait(reader, IO::READABLE, HANG_S)
        end
      end
    end

    def test_a_ready_fiber_is_interrupted_before_it_goes_on
      in_fiber do |scheduler|
        fiber = scheduler.spawn { assert_raises(Cancelled) { scheduler.yield.then { flunk "it went on" } } }
        scheduler.fiber_interrupt(fiber, Cancelled.new)
      end
    end

    def test_an_interrupted_fiber_may_wait_while_it_cleans_up
      steps = []
      with_scheduler do |scheduler|
        fiber = scheduler.spawn do
          sleep
        rescue Cancelled
          steps << :rescued
        ensure
          sleep(0.002).then { steps << :clean }
        end
        scheduler.fiber_interrupt(fiber, Cancelled.new)
      end
      assert_equal %i[rescued clean], steps
    end

    def test_an_interrupt_reaches_a_fiber_that_resumes_an_inner_one
      in_fiber do |scheduler|
        outcome = nil
        fiber = scheduler.spawn do
          Fiber.new { sleep 0.02 }.resume
          sleep HANG_S / 2
          outcome = :none
        rescue Cancelled
          outcome = :cancelled
        end
        scheduler.fiber_interrupt(fiber, Cancelled.new)
        sleep 0.001 until outcome
        assert_equal :cancelled, outcome
      end
    end

    def test_an_interrupt_for_an_ended_fiber_does_not_reach_the_next_job
      in_fiber do |scheduler|
        fiber = scheduler.spawn { nil }
        scheduler.fiber_interrupt(fiber, Cancelled.new)
        5.times { scheduler.spawn { 2.times { scheduler.yield } } }
        sleep 0.001
        scheduler.fiber_interrupt(Fiber.new { nil }.tap(&:resume), Cancelled.new)
      end
    end

    def test_two_interrupts_are_raised_one_after_the_other
      in_fiber do |scheduler|
        seen = []
        fiber = scheduler.spawn { 2.times { sleep rescue seen << $!.message } }
        scheduler.fiber_interrupt(fiber, RuntimeError.new("one"))
        scheduler.fiber_interrupt(fiber, RuntimeError.new("two"))
        sleep 0.001 until seen.size == 2
        assert_equal %w[one two], seen
      end
    end

    def test_an_interrupted_fiber_that_lets_it_out_is_reported
      reports = []
      with_scheduler(reports: reports) do |scheduler|
        fiber = scheduler.spawn { sleep }
        scheduler.fiber_interrupt(fiber, Cancelled.new("let out"))
      end
      assert_equal ["let out"], reports.map(&:message)
    end

    def test_an_interrupt_of_the_thread_while_the_loop_waits_leaves_through_run_and_the_loop_can_go_on
      got = nil
      with_scheduler do |scheduler|
        queue = Thread::Queue.new
        scheduler.spawn { got = queue.pop }
        raise_soon(Interrupt)
        assert_raises(Interrupt) { scheduler.run }
        queue.push(:late)
        scheduler.run
      end
      assert_equal :late, got
    end

    def test_an_interrupt_while_a_fiber_computes_leaves_through_run
      unwound = false
      with_scheduler do |scheduler|
        computing = Thread::Queue.new
        scheduler.spawn do
          sleep 0.001
          computing.push(true)
          nil while true
        ensure
          unwound = true
        end
        raise_soon(Interrupt) { computing.pop }
        assert_raises(Interrupt) { scheduler.run }
      end
      assert unwound
    end

    def test_an_interrupt_while_a_fiber_cleans_up_leaves_through_run
      with_scheduler do |scheduler|
        cleaning = Thread::Queue.new
        fiber = scheduler.spawn do
          sleep
        ensure
          cleaning.push(true)
          nil while true
        end
        scheduler.fiber_interrupt(fiber, Cancelled.new)
        raise_soon(Interrupt) { cleaning.pop }
        assert_raises(Interrupt) { scheduler.run }
      end
    end

    def test_control_c_leaves_through_run_in_the_main_thread
      got = nil
      run_scheduler do |scheduler|
        queue = Thread::Queue.new
        scheduler.spawn { got = queue.pop }
        main = Thread.current
        Thread.new { (Thread.pass until main.status == "sleep").then { Process.kill(:INT, Process.pid) } }
        assert_raises(Interrupt) { scheduler.run }
        queue.push(:late)
      end
      assert_equal :late, got
    end

    def test_control_c_ends_a_program_whose_fibers_wait_forever
      code = <<~RUBY
        require "gyre/scheduler"
        Fiber.set_scheduler(Gyre::Scheduler.new(#{backend.inspect}))
        Fiber.schedule { begin; sleep; ensure; puts "unwound"; end }
        Fiber.schedule { Thread::Queue.new.pop }
        $stdout.sync = true
        puts "ready"
        sleep # and then the end of the program closes the scheduler
      RUBY
      with_subprocess(*ruby_command("-e", code)) do |pid, out, _|
        assert_equal "ready\n", out.gets
        Process.kill(:INT, pid)
        assert out.wait_readable(HANG_S), "it hangs"
        assert_equal "unwound\n", out.gets
        assert_nil out.gets
      end
    end

    def test_a_killed_thread_ends_although_its_fibers_wait_forever
      unwound = 0
      thread = Thread.new do
        run_scheduler do |scheduler|
          3.times { scheduler.spawn { begin; sleep; ensure; unwound += 1; end } }
          scheduler.run
        end
      end
      eventually { thread.status == "sleep" }
      thread.kill
      assert thread.join(HANG_S), "it hangs"
      assert_equal 3, unwound
    end

    def test_exceptions_at_any_time_lose_no_fiber
      storm = Class.new(Exception) # rubocop:disable Lint/InheritException -- nothing on the way may rescue it
      finished = {}
      steps = 0
      job = lambda do |scheduler, index, number = 0|
        while number < 60
          survive(storm, index + number) { scheduler }
          steps += 1
          number += 1
        end
        finished[index] = true
      rescue storm # outside of a wait
        retry
      end
      with_scheduler do |scheduler|
        8.times { |index| scheduler.spawn { job.call(scheduler, index) } }
        me = Thread.current
        thread = Thread.new do
          before = -1
          until finished.size == 8
            sleep 0.0003
            (before = steps) && me.raise(storm) if steps > before # on a busy machine there would be nothing but exceptions
          end
        end
        begin
          scheduler.run
        rescue storm
          retry
        end
        begin
          thread.join
          Thread.pass
        rescue storm
          retry
        end
      end
      assert_equal 8, finished.size
    end

    private

    # Raises in the present thread, after the block, or as soon as it sleeps.
    def raise_soon(error)
      me = Thread.current
      Thread.new do
        block_given? ? yield : (Thread.pass until me.status == "sleep")
        sleep 0.003
        me.raise(error)
      end
    end

    # Some wait, again and again if need be until no exception comes in between.
    def survive(storm, number)
      case number % 3
      when 0 then sleep 0.0005
      when 1 then yield.yield
      else yield.block(:test, 0.0005)
      end
    rescue storm
      retry
    end
  end
end
