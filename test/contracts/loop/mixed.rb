# frozen_string_literal: true

# A keyed loop in a thread that has a scheduler: they share one loop, and a wait for an event parks
# its fiber.
require "gyre"
require "support/portable_simulation"

module LoopContract
  # Together with fibers, and with other loops.
  module Mixed
    def test_on_a_schedulers_loop_the_figures_are_that_ones
      Gyre.run do
        loop = new_loop
        stats = loop.stats
        assert_equal Fiber.scheduler.stats.keys, stats.keys
        assert_equal stats.keys, Gyre::Loop.stats.keys
        assert_equal Fiber.scheduler.stats[:tasks], stats[:tasks]
      end
      assert_nil Gyre::Loop.stats
    end

    def test_other_fibers_go_on_while_one_waits_for_events
      reader, writer = new_pipe
      order = []
      run do |loop|
        Fiber.schedule do
          3.times { |index| sleep(0.005).then { order << index } }
          writer.write("x")
        end
        loop.watch_io(:io, reader, false, true)
        order << loop.next_event
      end
      assert_equal [0, 1, 2, :io], order
    end

    def test_a_fiber_emits_to_another
      keys = run do |loop|
        Fiber.schedule do
          loop.emit(1)
          sleep 0.002
          loop.emit(2)
          loop.stop
        end
        keys = []
        loop.each { |key| keys << key }
        keys
      end
      assert_equal [1, 2], keys
    end

    def test_another_thread_wakes_the_fiber
      assert_equal :a, (run do |loop|
        main = Thread.current
        thread = Thread.new do
          Thread.pass until main.stop?
          loop.emit(:a)
        end
        loop.next_event.tap { thread.join }
      end)
    end

    def test_two_loops_on_one_thread_are_served_side_by_side
      keys = []
      run do |one|
        other = new_loop
        fibers = [one, other].each_with_index.map do |loop, index|
          loop.watch_timer(index, 0.001, 0.001)
          Fiber.schedule { 3.times { keys << loop.next_event } }
        end
        sleep 0.001 while fibers.any?(&:alive?) && keys.size < 6
        [one, other].each(&:close)
      end
      assert_equal [0, 0, 0, 1, 1, 1], keys.sort
    end

    def test_two_loops_without_a_scheduler_take_turns
      one, other = new_loop, new_loop
      one.watch_timer(:one, 0.001, 0)
      other.watch_timer(:other, 0.001, 0)
      assert_equal %i[one other], [one.next_event, other.next_event]
    end

    def test_a_woken_fiber_that_is_stopped_leaves_its_event_to_another
      Gyre.run do |task|
        loop = new_loop
        stopped, other = Array.new(2) { task.async { loop.next_event } }
        task.yield
        loop.emit(:a)
        stopped.stop
        assert_equal :a, other.wait
      ensure
        loop.close
      end
    end

    def test_two_fibers_may_wait_on_one_loop
      keys = []
      run do |loop|
        fibers = Array.new(2) { Fiber.schedule { keys << loop.next_event } }
        loop.emit(:a)
        loop.emit(:b)
        sleep 0.001 until keys.size == 2
        assert fibers
      end
      assert_equal %i[a b], keys.sort
    end

    def test_events_that_are_not_taken_neither_grow_nor_keep_the_loop_busy
      reader, writer = new_pipe
      writer.write("x")
      run do |loop|
        loop.watch_io(:io, reader, false, false)
        loop.watch_timer(:timer, 0.001, 0.001)
        before_s = cpu_s
        took_s = duration_s { sleep 0.3 }
        assert_operator cpu_s - before_s, :<, took_s * 0.7
        assert_equal %i[io timer], [loop.next_event, loop.next_event].sort
        keys = []
        keys << loop.next_event until keys.uniq.size == 2 # both come again
        loop.close
      end
    end

    def test_a_watch_alone_does_not_keep_the_scheduler_running
      reader, = new_pipe
      loop = nil
      run { |made| (loop = made).watch_io(:io, reader, false, false) }
      assert loop.watching?(:io)
    end

    def test_watches_come_along_into_a_scheduler_and_out_of_it
      reader, writer = new_pipe
      loop = new_loop
      loop.watch_io(:io, reader, false, false)
      loop.watch_timer(:timer, 0.05, 0.05)
      writer.write("x")
      assert_equal :io, wait_for(loop, :io, nil)
      run { assert_equal :timer, wait_for(loop, :timer, reader) }
      reader.read_nonblock(1, exception: false)
      writer.write("x")
      assert_equal :io, wait_for(loop, :io, nil)
      reader.read_nonblock(1)
      assert_equal :timer, wait_for(loop, :timer, nil)
      loop.unwatch(:timer)
    end

    def test_an_exception_reaches_the_fiber_that_waits
      run do |loop|
        assert_raises(Timeout::Error) { Timeout.timeout(0.01) { loop.next_event } }
        loop.emit(:on)
        assert_equal :on, loop.next_event
      end
    end

    def test_a_loop_of_the_other_engine_is_refused_in_a_schedulers_thread
      skip "this build has one engine" if GyreTest::Engines::BACKENDS.size == 1
      other = GyreTest::Engines::BACKENDS.find { |name| (name == "select") != (backend == "select") }
      loop = ENV.fetch("GYRE_BACKEND").then do |before|
        ENV["GYRE_BACKEND"] = nil
        Gyre::Loop.new(other)
      ensure
        ENV["GYRE_BACKEND"] = before
      end
      @loops << loop
      error = nil
      run { error = assert_raises(RuntimeError) { loop.next_event } }
      assert_match(/make the loop in that thread/, error.message)
    end

    def test_a_closed_io_is_noticed_in_a_scheduler_too
      run do |loop|
        reader, = new_pipe
        loop.watch_io(:gone, reader, false, false)
        loop.emit(:first)
        assert_equal :first, loop.next_event
        reader.close
        # Where the loop gets a report of the close, that may be an event first.
        error = assert_raises(IOError) { loop.each { |key| assert_equal :gone, key } }
        assert_match(/watch :gone/, error.message)
      end
    end

    def test_a_fiber_that_survives_the_close_of_its_scheduler_is_forgotten
      loop = nil
      stops = 0
      in_thread do
        scheduler = Gyre::Scheduler.new(backend)
        Gyre::Testing::Simulation.current = Gyre::Testing::Simulation.new(scheduler, Minitest.seed) # it is given up after seconds
        Fiber.set_scheduler(scheduler)
        loop = new_loop
        scheduler.spawn do
          loop.next_event
        rescue Gyre::Stop
          (stops += 1) < 20 ? retry : raise
        end
        scheduler.define_singleton_method(:leaving?) { true } # as in a thread that is killed: nothing is waited for
        scheduler.close
      end
      assert_operator stops, :>, 2
      GC.start
      loop.emit(:on)
      assert_equal :on, loop.next_event
    end

    # Takes events until one has this key; reads what the reader has.
    def wait_for(loop, wanted, reader)
      loop.each do |key|
        reader.read_nonblock(1, exception: false) if key == :io && reader
        break key if key == wanted
      end
    end

    # In a fiber of a scheduler, with a new loop.
    def run(*arguments, **options)
      return super unless block_given?

      in_thread { Gyre.run { yield new_loop } }
    end
  end
end
