# frozen_string_literal: true

# What only the portable engine has: its backend and timers by themselves, callbacks without fibers, the pool of threads. What
# it has in common with the native one is in test/contracts/scheduler/.
require "test_helper"
require "gyre/scheduler"
require "socket"

class PortableEngineTest < Minitest::Test
  # The backend on IO.select.
  class Select < Minitest::Test
    READABLE = Gyre::Loop::Select::READABLE
    WRITABLE = Gyre::Loop::Select::WRITABLE

    def setup
      @select = Gyre::Loop::Select.new
      @one, @other = UNIXSocket.pair
    end

    def teardown
      [@select, @one, @other].each(&:close)
    end

    def test_it_reports_what_is_ready_as_long_as_it_is_ready
      @select.watch(@one, READABLE)
      assert_empty @select.wait(0)
      @other.write "x"
      2.times { assert_equal({ @one.fileno => READABLE }, @select.wait(1)) }
      @select.watch(@one, READABLE | WRITABLE)
      assert_equal({ @one.fileno => READABLE | WRITABLE }, @select.wait(1))
      @select.watch(@one, WRITABLE)
      assert_equal({ @one.fileno => WRITABLE }, @select.wait(1))
      @select.unwatch(@one.fileno)
      assert_empty @select.wait(0)
    end

    def test_a_descriptor_may_be_given_by_its_number
      @select.watch(@one.fileno, WRITABLE)
      assert_equal({ @one.fileno => WRITABLE }, @select.wait(1))
      refute_predicate @one, :closed?
    end

    def test_urgent_data_is_a_priority_event
      server = TCPServer.new("127.0.0.1", 0)
      client = TCPSocket.new("127.0.0.1", server.addr[1])
      accepted = server.accept
      @select.watch(accepted, Gyre::Loop::Select::PRIORITY)
      client.send("!", Socket::MSG_OOB)
      assert_equal({ accepted.fileno => Gyre::Loop::Select::PRIORITY }, @select.wait(1))
    ensure
      [server, client, accepted].each(&:close)
    end

    def test_wake_ends_the_present_wait
      thread = Thread.new { @select.wait(nil) }
      eventually { thread.status == "sleep" }
      @select.wake
      assert_empty thread.value
    end

    def test_wake_ends_the_next_wait_once
      3.times { @select.wake }
      assert_empty @select.wait(nil)
      assert_operator duration_s { @select.wait(0.003) }, :>=, 0.003
    end

    def test_waking_never_waits_and_a_closed_backend_does_not_mind
      100_000.times { @select.wake }
      backend = Gyre::Loop::Select.new
      backend.close
      backend.wake
    end

    def test_a_closed_descriptor_is_reported_and_the_others_go_on_after_it_is_forgotten
      closed, writer = IO.pipe
      fd = closed.fileno
      @select.watch(closed, READABLE)
      @select.watch(@one, WRITABLE)
      closed.close
      assert_equal({ fd => 0 }, @select.wait(1))
      @select.unwatch(fd)
      assert_equal({ @one.fileno => WRITABLE }, @select.wait(1))
    ensure
      writer&.close
    end

    def test_a_number_that_nothing_stands_behind_is_reported
      reader, writer = IO.pipe
      twin = IO.for_fd(reader.fileno, autoclose: false)
      @select.watch(twin, READABLE)
      reader.close
      assert_equal({ twin.fileno => 0 }, @select.wait(1))
      assert_raises(IOError) { @select.watch(reader, READABLE) }
    ensure
      writer.close
    end

    def test_descriptors_beyond_what_select_takes_are_named
      limited = Module.new do
        def select(*)
          raise ArgumentError, "too many descriptors"
        end
      end
      @select.watch(@one, READABLE)
      error = assert_raises(RuntimeError) { with_singleton_module(IO, limited) { @select.wait(0) } }
      assert_match(/select\(2\) cannot watch 1 descriptors.*FD_SETSIZE.*native engine/, error.message)
    end

    def test_numbers_beyond_1024_are_watched_or_named
      skip "descriptors are limited to #{Process.getrlimit(:NOFILE).first}" if Process.getrlimit(:NOFILE).first < 1200
      ios = Array.new(1100) { File.open(File::NULL) }
      reader, writer = IO.pipe
      assert_operator reader.fileno, :>, 1024
      @select.watch(reader, READABLE)
      writer.write "x"
      assert_equal({ reader.fileno => READABLE }, @select.wait(1))
    rescue RuntimeError => error
      assert_match(/FD_SETSIZE/, error.message)
    ensure
      [*ios, reader, writer].compact.each(&:close)
    end

    private

    # A module's methods in front of an object's own while the block runs; removed from it afterwards.
    def with_singleton_module(object, replacement)
      object.singleton_class.prepend(replacement)
      yield
    ensure
      replacement.instance_methods.each { |name| replacement.remove_method(name) }
    end
  end

  # Timers by themselves.
  class Timers < Minitest::Test
    def setup
      @timers = Gyre::Loop::Timers.new
      @fired = []
    end

    def test_due_timers_fire_in_the_order_of_their_times_and_of_their_arming
      [-1, -3, -2, -3, 60].each_with_index { |seconds, index| @timers.after(seconds, -> { @fired << index }) }
      assert_equal 0, @timers.delay
      @timers.fire
      assert_equal [1, 3, 2, 0], @fired
      assert_equal 1, @timers.size
      assert_in_delta 60, @timers.delay, 1
    end

    def test_a_cancelled_timer_does_not_fire
      timer = @timers.after(-1, -> { @fired << :cancelled })
      2.times { timer.cancel }
      assert_nil @timers.delay
      @timers.fire
      assert_empty @fired
      refute_predicate timer, :pending?
    end

    def test_cancelled_timers_are_thrown_out_though_they_are_not_the_first
      @timers.after(1, -> {})
      1_000.times { @timers.after(100, -> {}).cancel }
      assert_equal 1, @timers.size
      assert_operator @timers.instance_variable_get(:@timers).size, :<, 300
    end

    def test_a_timer_may_arm_and_cancel_others_while_it_fires
      later = nil
      @timers.after(-2, -> { later.cancel.then { @timers.after(-1, -> { @fired << :armed }) } })
      later = @timers.after(-1, -> { @fired << :later })
      @timers.fire
      assert_equal [:armed], @fired
    end

    def test_a_timer_for_the_end_of_time_lets_the_loop_sleep_for_long_but_not_for_ever
      @timers.after(Float::INFINITY, -> {})
      assert_equal Gyre::Loop::Timers::DELAY_LIMIT_S, @timers.delay
    end
  end

  # watch and after.
  class Callbacks < Minitest::Test
    def test_a_watch_is_called_again_and_again_until_it_is_cancelled_and_keeps_run_going
      with_scheduler do |scheduler|
        reader, writer = IO.pipe
        seen = []
        watch = scheduler.watch(reader, IO::READABLE) do |ready|
          seen << [ready, reader.read_nonblock(1)]
          watch.cancel if seen.size == 3
        end
        writer.write "abc"
        scheduler.run
        assert_equal [[IO::READABLE, "a"], [IO::READABLE, "b"], [IO::READABLE, "c"]], seen
        2.times { watch.cancel }
        [reader, writer].each(&:close)
      end
    end

    def test_a_watch_and_a_fiber_may_wait_for_the_same_descriptor
      with_scheduler do |scheduler|
        one, other = UNIXSocket.pair
        events = []
        scheduler.spawn { events << scheduler.io_wait(one, IO::READABLE, 1) }
        watch = scheduler.watch(one, IO::WRITABLE) { |ready| watch.cancel.then { events << ready } }
        scheduler.run_until { events.any? }
        assert_equal [IO::WRITABLE], events
        other.write "x"
        scheduler.run
        assert_equal [IO::WRITABLE, IO::READABLE], events
        [one, other].each(&:close)
      end
    end

    def test_a_watch_of_a_descriptor_that_was_closed_is_told_so_and_is_over
      with_scheduler do |scheduler|
        reader, writer = IO.pipe
        seen = []
        scheduler.watch(reader, IO::READABLE) { |ready| seen << ready }
        scheduler.after(0.001) { reader.close }
        scheduler.run
        assert_equal [0], seen
        writer.close
      end
    end

    def test_watching_a_closed_descriptor_raises
      with_scheduler do |scheduler|
        reader, writer = IO.pipe
        [reader, writer].each(&:close)
        assert_raises(IOError) { scheduler.watch(reader, IO::READABLE) { nil } }
      end
    end

    def test_timers_call_once_in_their_order_and_keep_run_going
      with_scheduler do |scheduler|
        fired = []
        [3, 1, 2].each { |ms| scheduler.after(ms / 1000.0) { fired << ms } }
        cancelled = scheduler.after(0.002) { fired << :cancelled }
        2.times { cancelled.cancel }
        scheduler.run
        assert_equal [1, 2, 3], fired
      end
    end

    def test_a_callback_may_spawn_a_fiber_that_waits
      with_scheduler do |scheduler|
        steps = []
        scheduler.after(0.001) do
          scheduler.spawn { sleep(0.001).then { steps << :fiber } }
          steps << :callback
        end
        scheduler.run
        assert_equal %i[callback fiber], steps
      end
    end

    def test_a_callback_that_raises_is_reported_and_the_loop_goes_on
      with_scheduler do |scheduler|
        done = false
        scheduler.after(0.001) { raise "in the callback" }
        scheduler.after(0.002) { done = true }
        _, err = capture { scheduler.run }
        assert_match(/\Agyre: unhandled in a callback of the loop: .*in the callback/, err)
        assert done
      end
    end

    def test_exit_in_a_callback_leaves_through_run
      with_scheduler do |scheduler|
        scheduler.after(0.001) { exit 2 }
        assert_raises(SystemExit) { scheduler.run }
      end
    end

    private

    def with_scheduler
      Thread.new do
        scheduler = Gyre::Scheduler::Portable.new
        Fiber.set_scheduler(scheduler)
        yield scheduler
      end.tap { |thread| thread.report_on_exception = false }.join
    end
  end

  # The pool of threads for blocking work.
  class Offload < Minitest::Test
    def test_without_a_scheduler_the_work_just_runs
      thread = nil
      assert_equal(:value, Gyre::Offload.call { (thread = Thread.current).then { :value } })
      assert_same Thread.current, thread
    end

    def test_one_after_the_other_uses_one_thread
      with_scheduler do
        threads = Array.new(5) { Gyre::Offload.call { Thread.current } }
        assert_equal 1, threads.uniq.size
      end
    end

    def test_at_once_uses_as_many_threads_as_allowed
      with_scheduler do |scheduler|
        limit = Gyre::Offload::THREADS_LIMIT
        at_work = most = 0
        work = lambda do
          most = [most, at_work += 1].max
          sleep 0.01
          at_work -= 1
        end
        (limit + 10).times { scheduler.spawn { Gyre::Offload.call(&work) } }
        sleep 0.005 until scheduler.stats[:tasks] == 1
        assert_operator most, :<=, limit
        assert_operator most, :>, 5
      end
    end

    def test_what_the_work_raises_is_raised_where_it_was_called
      with_scheduler { assert_raises(IOError) { Gyre::Offload.call { raise IOError } } }
    end

    def test_work_that_nobody_waits_for_any_more_is_ended
      with_scheduler do |scheduler|
        state = :running
        fiber = scheduler.spawn do
          Gyre::Offload.call { begin; sleep; ensure; state = :ended; end } # rubocop:disable Style/Semicolon
        rescue IOError
          nil
        end
        sleep 0.002
        scheduler.fiber_interrupt(fiber, IOError.new)
        eventually { state == :ended }
        assert_equal(:next, Gyre::Offload.call { :next })
      end
    end

    private

    def with_scheduler
      Thread.new do
        scheduler = Gyre::Scheduler::Portable.new
        Fiber.set_scheduler(scheduler)
        scheduler.spawn { yield scheduler }
        scheduler.define_singleton_method(:report) { |error, _| raise error }
        scheduler.run
      end.tap { |thread| thread.report_on_exception = false }.join
    end
  end
end
