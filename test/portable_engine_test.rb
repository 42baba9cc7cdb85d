# frozen_string_literal: true

# What only the portable engine has: callbacks without fibers, the pool of threads. What
# it has in common with the native one is in test/contracts/scheduler/.
require "test_helper"
require "gyre/scheduler"
require "gyre/testing"
require "support/on_portable"
require "socket"

class PortableEngineTest < Minitest::Test
  # watch and after.
  class Callbacks < Minitest::Test
    include GyreTest::OnPortable

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
        scheduler.spawn { events << scheduler.io_wait(one, IO::READABLE, 60) }
        watch = scheduler.watch(one, IO::WRITABLE) { |ready| watch.cancel.then { events << ready } }
        scheduler.run_until { events.any? }
        assert_equal [IO::WRITABLE], events
        other.write "x"
        scheduler.run
        assert_equal [IO::WRITABLE, IO::READABLE], events
        [one, other].each(&:close)
      end
    end

    def test_a_watch_of_a_descriptor_that_was_closed_reports_that_and_is_over
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
        Gyre::Testing::Simulation.current = Gyre::Testing::Simulation.new(scheduler, Minitest.seed)
        fired = []
        [3, 1, 2].each { |seconds| scheduler.after(seconds) { fired << seconds } }
        cancelled = scheduler.after(0.2) { fired << :cancelled }
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

    # The loop calls a timer again when an exception left its call.
    def test_a_timeout_is_reported_though_an_exception_for_the_thread_came_while_it_was
      told = []
      fibers = Object.new
      fibers.define_singleton_method(:interrupt) { |_fiber, error| (told << error).one? && raise(Interrupt) }
      expiry = Gyre::Scheduler::Portable::Expiry.new(fibers, Fiber.current, [IOError, "late"])
      assert_raises(Interrupt) { expiry.call }
      2.times { expiry.call }
      assert_equal %w[late late], told.map(&:message)
      assert_same(*told)
    end
  end
end
