# frozen_string_literal: true

# Timeout.timeout, which on a scheduler is timeout_after.
require "socket"
require "timeout"

module SchedulerContract
  # timeout_after.
  module Timeouts
    def test_the_constructor_of_a_timeouts_exception_may_wait
      made = 0
      kind = Class.new(IOError) do
        define_method(:initialize) do |*arguments|
          made += 1
          sleep 0.002
          super(*arguments)
        end
      end
      ended = false
      in_fiber do |scheduler|
        sleep 0.0001
        scheduler.spawn { scheduler.run_until { ended } } # from now on the driver is a fiber that can wait
        error = assert_raises(kind) { scheduler.timeout_after(0.001, kind, "late") { sleep } }
        assert_equal "late", error.message
        assert_equal(:ended, scheduler.timeout_after(0.001, kind, "late") { (sleep 0.0001 until made == 2).then { :ended } })
        sleep 0.003
      ensure
        ended = true
      end
      assert_equal 2, made
    end

    def test_a_timeout_ends_a_sleep
      in_fiber do
        took = duration_s { assert_raises(Timeout::Error) { Timeout.timeout(0.005) { sleep } } }
        assert_operator took, :>=, 0.005
      end
    end

    def test_a_timeout_ends_every_kind_of_wait
      with_endless_waits do |scheduler, reader, mutex, thread, child|
        waits = [
          -> { reader.read }, -> { mutex.lock }, -> { Thread::Queue.new.pop }, -> { scheduler.block(:test) }, -> { sleep },
          -> { thread.join }, -> { Process.wait(child) },
          -> { scheduler.yield while true }, -> { scheduler.io_wait(reader, IO::READABLE, 100) }
        ]
        waiting = waits.size
        waits.each do |wait|
          scheduler.spawn do
            assert_raises(Timeout::Error, wait.inspect) { Timeout.timeout(0.004) { wait.call } }
          ensure
            waiting -= 1
          end
        end
        scheduler.run_until { waiting.zero? }
      end
    end

    def test_a_block_that_ends_in_time_gives_its_value
      in_fiber do
        assert_equal :value, Timeout.timeout(HANG_S) { sleep(0.001).then { :value } }
        assert_equal 1, Timeout.timeout(1) { |seconds| seconds }
        assert_equal :endless, Timeout.timeout(nil) { :endless }
      end
    end

    # What Timeout.timeout hands over: the gem's later versions make the exception themselves, and
    # look for the same object.
    def test_the_exception_is_what_raise_takes
      in_fiber do |scheduler|
        timed = ->(*exception) { scheduler.timeout_after(0.001, *exception) { sleep } }
        error = IOError.new("own")
        assert_same error, assert_raises(IOError) { timed.call(error) }
        assert_equal "execution expired", assert_raises(Timeout::Error) { timed.call }.message
        assert_equal "said", assert_raises(Timeout::Error) { timed.call(nil, "said") }.message
        assert_equal "IOError", assert_raises(IOError) { timed.call(IOError) }.message
        assert_equal %w[where:1], assert_raises(IOError) { timed.call(IOError, "text", %w[where:1]) }.backtrace
        maker = Object.new
        maker.define_singleton_method(:exception) { |text = "none"| IOError.new("made #{text}") }
        assert_equal "made here", assert_raises(IOError) { timed.call(maker, "here") }.message
        assert_raises(TypeError) { timed.call(Object) }
      end
    end

    class Meanwhile < StandardError
    end

    def test_an_exception_for_the_thread_while_a_timeout_is_made_loses_neither
      kind = Class.new(IOError) { def initialize(*) = super.tap { Thread.current.raise(Meanwhile) } }
      ended = []
      with_scheduler do |scheduler|
        scheduler.spawn { ended << assert_raises(kind) { scheduler.timeout_after(0.001, kind) { sleep } } }
        assert_raises(Meanwhile) { scheduler.run }
        scheduler.run
      end
      assert_equal [kind], ended.map(&:class)
    end

    # A fiber that may wait drives the loop, and Ruby code that it calls in a turn may wait in it.
    def test_a_block_that_ends_while_its_timeout_is_made_is_not_hit_by_it
      skip "the portable engine makes it again at each turn until it is made" if backend == "select"
      kind = Class.new(IOError) { def initialize(*) = super.tap { sleep 0.01 } }
      with_scheduler do |scheduler|
        ends = []
        scheduler.spawn do
          ends << Timeout.timeout(0.001, kind) { sleep(0.004).then { :in_time } }
          sleep(0.02).then { ends << :undisturbed }
        rescue kind
          ends << :late
        end
        Fiber.new { scheduler.run }.resume
        assert_equal %i[in_time undisturbed], ends
      end
    end

    def test_a_block_that_ends_while_its_timeout_is_raised_further_in_is_not_hit_by_it
      skip "the portable engine knows the outermost and the innermost fiber" if backend == "select"
      kind = Class.new(IOError) { def exception(*) = tap { @slept ||= sleep(0.01) } }
      with_scheduler do |scheduler|
        ends = []
        middle = Fiber.new do
          ends << scheduler.timeout_after(0.001, kind.new) { Fiber.new { sleep 0.004 }.resume.then { :in_time } }
          Fiber.new { sleep 0.02 }.resume.then { ends << :undisturbed }
        rescue kind
          ends << :late
        end
        scheduler.spawn { middle.resume }
        Fiber.new { scheduler.run }.resume
        assert_equal %i[in_time undisturbed], ends
      end
    end

    def test_class_and_message_can_be_given
      in_fiber do
        error = assert_raises(IOError) { Timeout.timeout(0.001, IOError, "too slow") { sleep } }
        assert_equal "too slow", error.message
        error = assert_raises(Timeout::Error) { Timeout.timeout(0.001) { sleep } }
        assert_equal "execution expired", error.message
      end
    end

    def test_the_inner_one_of_two_timeouts_fires_inside
      in_fiber do
        reached = false
        Timeout.timeout(HANG_S) do
          assert_raises(Timeout::Error) { Timeout.timeout(0.002) { sleep } }
          reached = true
        end
        assert reached
      end
    end

    def test_the_outer_one_of_two_timeouts_passes_the_inner_one
      in_fiber do
        assert_raises(IOError) { Timeout.timeout(0.002, IOError) { Timeout.timeout(HANG_S) { sleep } } }
        sleep 0.002
      end
    end

    def test_a_timeout_reaches_into_an_inner_fiber
      in_fiber do
        ensured = false
        assert_raises(Timeout::Error) do
          Timeout.timeout(0.003) do
            inner = Fiber.new do
              sleep 0.05
            ensure
              ensured = true
            end
            inner.resume
            sleep
          end
        end
        eventually { ensured } # Rubies that cannot raise into the inner fiber let it finish
      end
    end

    def test_a_timeout_reaches_into_an_enumerator
      since_ruby "3.2"
      in_fiber do |scheduler|
        simulate(scheduler)
        endless = Enumerator.new { |yielder| loop { sleep(0.002).then { yielder << 1 } } }
        count = 0
        assert_raises(Timeout::Error) { Timeout.timeout(0.021) { loop { count += endless.next } } }
        assert_equal 10, count
      end
    end

    def test_a_timeout_inside_of_an_inner_fiber_fires_there
      in_fiber do
        inner = Fiber.new { Timeout.timeout(0.002, IOError) { sleep } }
        assert_raises(IOError) { inner.resume }
      end
    end

    def test_a_timeout_that_comes_too_late_never_comes
      in_fiber do |scheduler|
        fiber = Fiber.current
        20.times do |number|
          # The block ends in the same turn in which the time is over, sometimes before, sometimes
          # after.
          begin
            Timeout.timeout(0.001) { sleep(0.0009 + (number * 0.00001)) }
          rescue Timeout::Error
            nil # in time
          end
          scheduler.yield
        end
        begin
          Timeout.timeout(0.001) { nil until duration_over?(0.002) } # does not wait at all
        rescue Timeout::Error
          flunk "no wait, no timeout"
        end
        sleep 0.002
        assert_same fiber, Fiber.current
      end
    end

    def test_a_timeout_that_is_over_when_its_fiber_is_woken_does_not_hit_the_next_wait
      in_fiber do |scheduler|
        fiber = scheduler.spawn do
          begin
            Timeout.timeout(0.002) { scheduler.block(:test) }
          rescue Timeout::Error
            nil # as good
          end
          sleep 0.005
        end
        busy_until = now + 0.003
        scheduler.unblock(:test, fiber)
        nil while now < busy_until
        sleep 0.01
      end
    end

    def test_many_timeouts_that_do_not_fire_cost_nothing_afterwards
      with_scheduler do |scheduler|
        scheduler.spawn { 2_000.times { Timeout.timeout(10) { nil } } }
        scheduler.run
        assert_equal 0, scheduler.stats[:timers]
      end
    end

    def test_a_thousand_timers_fire_in_order
      fired = []
      with_scheduler do |scheduler|
        1_000.times.to_a.shuffle.each do |number|
          scheduler.spawn do
            due = now + 0.05 + (number * 0.0003)
            sleep([due - now, 0].max)
            fired << due
          end
        end
      end
      assert_equal 1_000, fired.size
      disorder = fired.each_cons(2).count { |earlier, later| earlier > later + 0.03 }
      assert_operator disorder, :<=, 5, "a busy machine arms one or another late, but a broken heap mixes hundreds"
    end

    private

    def duration_over?(seconds)
      @since ||= now
      now - @since > seconds
    end
  end
end
